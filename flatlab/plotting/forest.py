"""Template `Forest`: correlations with their intervals below each other, an experiment per column.

seaborn's pointplot would compute its intervals itself, by a bootstrap of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.plotting.quantities import require, with_parts
from flatlab.plotting.style import KINDS, heading, short_label_of
from flatlab.stats import Correlations
from flatlab.tables.selection import columns_of, end_of_training


def frame(
    figure: Mapping[str, Any],
    tables: Mapping[str, xr.Dataset],
    correlations: Mapping[str, xr.Dataset],
) -> pd.DataFrame:
    """A correlation of one kind with its interval, and the number of its networks, per row.

    kind: `pooled`, over all networks, or `within` settings.  A pair has no value where one of its
    quantities was not measured in an experiment.
    """
    rows = []
    used = {name for pair in figure["pairs"] for name in pair}
    names = [*(name for name in figure["names"] if name in used)]
    names += sorted(used - {*names})
    for table in tables.values():
        end = with_parts(end_of_training(table), figure["parts"])
        require(end, names)
        columns = columns_of(end, names)
        columns = {name: values for name, values in columns.items() if np.isfinite(values).any()}
        found = Correlations(columns, list(end["setting"].values))
        for kind in KINDS:
            matrices = found.matrix(kind)[:3]
            for x, y in figure["pairs"]:
                values, runs = [np.nan] * 3, 0
                if {x, y} <= {*columns}:
                    place = found.names.index(x), found.names.index(y)
                    values = [float(matrix[place]) for matrix in matrices]
                    runs = found.runs_used(x, y)
                rows.append([heading(table), kind, x, y, *values, runs])
    header = ["experiment", "kind", "x", "y", "rho", "low", "high", "runs"]
    return pd.DataFrame(rows, columns=header)


def draw(fig: Any, frame: pd.DataFrame, figure: Mapping[str, Any]) -> None:
    """A line per pair; groups of pairs apart."""
    from matplotlib.lines import Line2D

    experiments = list(dict.fromkeys(frame["experiment"]))
    firsts = [x for x, _ in figure["pairs"]]
    groups = list(dict.fromkeys(firsts))
    places = [-n - 0.7 * groups.index(first) for n, first in enumerate(firsts)]
    axes = fig.subplots(1, len(experiments), sharex=True, sharey=True, squeeze=False)[0]
    for experiment, ax in zip(experiments, axes, strict=True):
        _intervals(ax, frame[frame["experiment"] == experiment], places)
        ax.axvline(0, color="0.6", lw=0.7, zorder=0.5)
        ax.set_title(experiment, loc="left")
        ax.set(xlim=(-1.05, 1.05), xlabel=r"Pearson's $\rho$", ylabel="")
        ax.set_xticks([-1, -0.5, 0, 0.5, 1])
        ax.grid(axis="x", lw=0.3, color="0.85")
    labels = [
        " and ".join(figure["names"].get(name, short_label_of(name)) for name in pair)
        for pair in figure["pairs"]
    ]
    axes[0].set_yticks(places, labels, fontsize=8)
    handles = [
        Line2D([], [], color=color, marker=marker, ms=5, mew=0, lw=1.2, label=label)
        for color, marker, label in KINDS.values()
    ]
    fig.legend(handles=handles, loc="outside upper left", ncols=2)


def _intervals(ax: Any, rows: pd.DataFrame, places: Sequence[float]) -> None:
    """A point and a bar per correlation, the kinds of it beside each other."""
    from seaborn import scatterplot

    for shift, (kind, (color, marker, _)) in zip((0.15, -0.15), KINDS.items(), strict=True):
        here = rows[rows["kind"] == kind]
        y = np.array(places) + shift
        scatterplot(x=here["rho"].values, y=y, color=color, marker=marker, s=25, linewidth=0, ax=ax)
        ax.hlines(y, here["low"], here["high"], color=color, lw=1.2)
    for place, rho in zip(places, rows["rho"][rows["kind"] == "pooled"], strict=True):
        if np.isnan(rho):
            ax.text(0, place, "undefined", ha="center", va="center", color="0.5")
