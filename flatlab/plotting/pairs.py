"""Template `Pairs`: every quantity against every other at the end of training, a point per network.

seaborn's PairGrid would make a figure of its own; these are its panels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import xarray as xr

from flatlab.plotting.points import HEADROOM, legend_of_settings, limit, points_of_settings
from flatlab.plotting.quantities import require
from flatlab.plotting.style import correlation, in_words, label_of
from flatlab.stats import Correlations
from flatlab.tables.selection import columns_of, end_of_training, of_seeds


def frame(
    figure: Mapping[str, Any],
    tables: Mapping[str, xr.Dataset],
    correlations: Mapping[str, xr.Dataset],
) -> pd.DataFrame:
    """Rows `run` with setting, hyper-parameters and quantities of each network, then rows `rho`,
    `low` and `high` with the correlation matrix and its intervals.
    """
    (table,) = tables.values()
    names = figure["quantities"]
    require(table, names)
    chosen = end_of_training(table)
    if figure["seeds"]:
        chosen = of_seeds(chosen, figure["seeds"])
        own = Correlations(columns_of(chosen, names), list(chosen["setting"].values))
        matrices = dict(zip(("rho", "low", "high"), own.matrix("pooled"), strict=False))
    else:
        (matrix,) = correlations.values()
        pooled = matrix.sel(kind="pooled", x=names, y=names)
        matrices = {kind: pooled[kind].values for kind in ("rho", "low", "high")}
    head = {"row": "run", "name": chosen["run"].values, "setting": in_words(chosen)}
    parts = [pd.DataFrame({**head, **columns_of(chosen, names)})]
    for kind, values in matrices.items():
        rows = pd.DataFrame(values, columns=names)
        rows.insert(0, "row", kind)
        rows.insert(1, "name", names)
        parts.append(rows)
    return pd.concat(parts, ignore_index=True)


def draw(fig: Any, frame: pd.DataFrame, figure: Mapping[str, Any]) -> None:
    """Scatter plots with Pearson's rho and its interval top-left, histograms on the diagonal."""
    names = figure["quantities"]
    runs = frame[frame["row"] == "run"]
    rho, low, high = (
        frame[frame["row"] == kind].set_index("name")[names] for kind in ("rho", "low", "high")
    )
    axes = fig.subplots(len(names), len(names), sharex="col", sharey="row", squeeze=False)
    for i, y in enumerate(names):
        for j, x in enumerate(names):
            ax = axes[i, j]
            if i == j:
                _histogram(ax, runs[x])
            else:
                points_of_settings(ax, runs, x, y)
                text = correlation(*(float(m[x][y]) for m in (rho, low, high)))
                ax.text(0.04, 0.96, text, transform=ax.transAxes, va="top", fontsize=6.5)
            ax.tick_params(width=0.5, length=2, pad=1.5)
    for i, name in enumerate(names):
        limit(axes[i, 0], "y", runs[name], headroom=HEADROOM)
        limit(axes[-1, i], "x", runs[name])
        # a fixed place: the labels of a row of panels line up, and laying them out costs nothing
        axes[i, 0].set_ylabel(label_of(name), fontsize=8.5)
        axes[i, 0].yaxis.set_label_coords(-0.3, 0.5)
        axes[-1, i].set_xlabel(label_of(name), fontsize=8.5)
        axes[-1, i].xaxis.set_label_coords(0.5, -0.2)
    legend_of_settings(fig, runs["setting"])


def _histogram(ax: Any, values: pd.Series) -> None:
    """Counts on an axis of their own: the panel's y axis belongs to its row."""
    from seaborn import histplot

    counts = ax.twinx()
    finite = values[values.abs() < float("inf")]
    if len(finite):
        bins = min(15, round(1.5 * len(finite) ** 0.5))  # 7 of 20 networks, 15 of 100
        histplot(x=finite, bins=bins, color="0.7", edgecolor="white", linewidth=0.4, ax=counts)
    counts.set_axis_off()
