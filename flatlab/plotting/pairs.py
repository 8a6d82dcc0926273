"""Template `Pairs`: every quantity against every other at the end of training, a point per network.

seaborn's PairGrid would create a figure of its own and takes several times as long.
"""

from typing import Any

import numpy as np
import pandas as pd

from flatlab.plotting import Settings, Tables, style
from flatlab.plotting.quantities import require
from flatlab.plotting.style import OTHER_KINDS
from flatlab.stats import Correlations
from flatlab.tables.selection import columns_of, end_of_training, of_seeds

MATRICES = ("rho", "low", "high")


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """Rows `run`: setting, hyper-parameters and quantities of a network.  Rows `rho`, `low` and
    `high`: the correlation matrix and the ends of its intervals.  Rows of `style.OTHER_KINDS`: the
    correlations within settings and adjusted for the training loss.
    """
    (table,) = tables.values()
    names = figure["quantities"]
    require(table, names)
    chosen = end_of_training(table)
    if figure["seeds"]:
        chosen = of_seeds(chosen, figure["seeds"])
        settings, loss = list(chosen["setting"].values), chosen["train_loss"].values
        own = Correlations(columns_of(chosen, names), settings, loss)
        matrices = [*own.matrix("pooled"), *(own.matrix(kind)[0] for kind in OTHER_KINDS)]
    else:
        (matrix,) = correlations.values()
        of_these = matrix.sel(x=names, y=names)
        matrices = [of_these[name].sel(kind="pooled").values for name in MATRICES]
        matrices += [of_these["rho"].sel(kind=kind).values for kind in OTHER_KINDS]
    head = {"row": "run", "name": chosen["run"].values, "setting": style.in_words(chosen)}
    parts = [pd.DataFrame({**head, **columns_of(chosen, names)})]
    for kind, values in zip((*MATRICES, *OTHER_KINDS), matrices, strict=True):
        columns = dict(zip(names, values.T, strict=True))
        parts.append(pd.DataFrame({"row": kind, "name": names, **columns}))
    return pd.concat(parts, ignore_index=True)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """Scatter plots with Pearson's rho and its interval top-left, histograms on the diagonal.

    Below them those of the other kinds that have the other sign.
    """
    names = figure["quantities"]
    runs = frame[frame["row"] == "run"]
    rows = (*MATRICES, *OTHER_KINDS)
    matrices = {kind: frame[frame["row"] == kind].set_index("name")[names] for kind in rows}
    axes = fig.subplots(len(names), len(names), sharex="col", sharey="row", squeeze=False)
    for (i, j), ax in np.ndenumerate(axes):
        x, y = names[j], names[i]
        if i == j:
            _histogram(ax, runs[x])
        else:
            style.points_of_settings(ax, runs, x, y)
            numbers = {kind: float(matrix[x][y]) for kind, matrix in matrices.items()}
            others = {kind: numbers[kind] for kind in OTHER_KINDS}
            text = style.correlation(*(numbers[kind] for kind in MATRICES), others=others)
            place = {"transform": ax.transAxes, "va": "top", "in_layout": False}
            ax.text(0.04, 0.96, text, fontsize=6.5, **place)
        ax.tick_params(width=0.5, length=2, pad=1.5)
        ax.xaxis.set_visible(i == len(names) - 1)  # ticks at the margins only, since they take
        ax.yaxis.set_visible(j == 0)  # more time than all points
    for i, name in enumerate(names):
        style.limit(axes[i, 0], "y", runs[name], headroom=style.HEADROOM)
        style.limit(axes[-1, i], "x", runs[name])
        # at a fixed distance, so that the labels line up
        axes[i, 0].set_ylabel(style.label_of(name), fontsize=8.5)
        axes[i, 0].yaxis.set_label_coords(-0.3, 0.5)
        axes[-1, i].set_xlabel(style.label_of(name), fontsize=8.5)
        axes[-1, i].xaxis.set_label_coords(0.5, -0.2)
    style.legend_of_settings(fig, runs["setting"])


def _histogram(ax: Any, values: pd.Series) -> None:
    """Counts as a share of the panel's height, since its y axis belongs to the row."""
    finite = values[np.isfinite(values)]
    if len(finite):
        bins = min(15, round(1.5 * len(finite) ** 0.5))  # 7 for 20 networks, 15 for 100
        counts, edges = np.histogram(finite, bins)
        bars = {"color": "0.7", "alpha": 0.75, "edgecolor": "white", "linewidth": 0.4}
        heights, place = counts / counts.max() / 1.05, ax.get_xaxis_transform()
        ax.bar(edges[:-1], heights, np.diff(edges), align="edge", transform=place, **bars)
