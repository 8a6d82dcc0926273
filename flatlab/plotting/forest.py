"""Template `Forest`: correlations with their intervals one below the other, a panel per experiment.

seaborn's pointplot would compute intervals with a bootstrap of its own.
"""

from typing import Any

import numpy as np
import pandas as pd

from flatlab.plotting.labels import headings, label_of
from flatlab.plotting.quantities import require, with_parts
from flatlab.plotting.render import Settings, Tables
from flatlab.plotting.style import KINDS, Look, legend
from flatlab.stats.correlation import Correlations
from flatlab.tables.selection import columns_of, end_of_training


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """One correlation per row, with its kind, its interval and the number of its networks.

    kind: `pooled`, over all networks, `within` settings, or `adjusted` for the training loss.  A
    pair has no value where one of its quantities was not measured in an experiment.
    """
    rows = []
    names = list(dict.fromkeys(name for pair in figure["pairs"] for name in pair))
    titles = headings(tables)
    for experiment, table in tables.items():
        end = with_parts(end_of_training(table), figure["parts"])
        require(end, names)
        settings, loss = list(end["setting"].values), end["train_loss"].values
        found = Correlations(columns_of(end, names), settings, loss)
        for kind in KINDS:
            matrices = found.matrix(kind)
            for x, y in figure["pairs"]:
                place = names.index(x), names.index(y)
                values = [float(matrix[place]) for matrix in matrices]
                rows.append([titles[experiment], kind, x, y, *values, found.runs_used(x, y)])
    header = ["experiment", "kind", "x", "y", "rho", "low", "high", "runs"]
    return pd.DataFrame(rows, columns=header)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A line per pair, with gaps between the groups of pairs."""
    pairs = figure["pairs"]
    groups = list(dict.fromkeys(first for first, _ in pairs))
    places = np.array([-n - 0.7 * groups.index(first) for n, (first, _) in enumerate(pairs)])
    experiments = list(dict.fromkeys(frame["experiment"]))
    axes = fig.subplots(1, len(experiments), sharex=True, sharey=True, squeeze=False)[0]
    for experiment, ax in zip(experiments, axes, strict=True):
        rows = frame[frame["experiment"] == experiment]
        # a point and a bar per correlation, its kinds one above the other
        for shift, (kind, (color, marker, _)) in zip((0.25, 0, -0.25), KINDS.items(), strict=True):
            here, y = rows[rows["kind"] == kind], places + shift
            ax.plot(here["rho"], y, ms=3, **Look(color, marker, "").options)
            ax.hlines(y, here["low"], here["high"], color=color, lw=0.9)
        for place, rho in zip(places, rows["rho"][rows["kind"] == "pooled"], strict=True):
            if np.isnan(rho):
                ax.text(0, place, "undefined", ha="center", va="center", color="0.5")
        ax.axvline(0, color="0.6", lw=0.7, zorder=0.5)
        ax.set_title(experiment, loc="left")
        ax.set(xlim=(-1.05, 1.05), xlabel=r"Pearson's $\rho$", xticks=[-1, -0.5, 0, 0.5, 1])
        ax.grid(axis="x", lw=0.3, color="0.85")
    labels = [" and ".join(label_of(figure, name) for name in pair) for pair in pairs]
    axes[0].set_yticks(places, labels, fontsize=6.5)
    legend(fig, {name: Look(color, marker) for color, marker, name in KINDS.values()})
