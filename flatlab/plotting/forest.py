"""Template `Forest`: correlations with their intervals below each other, an experiment per column.

seaborn's pointplot computes its intervals itself, by a bootstrap of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    names = list(dict.fromkeys(name for pair in figure["pairs"] for name in pair))
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
        for kind, (color, marker, _) in KINDS.items():
            here = frame[(frame["experiment"] == experiment) & (frame["kind"] == kind)]
            shift = 0.15 if kind == "pooled" else -0.15
            for place, (_, row) in zip(places, here.iterrows(), strict=True):
                ax.plot(row["rho"], place + shift, marker, color=color, ms=5, mew=0)
                ax.plot([row["low"], row["high"]], [place + shift] * 2, color=color, lw=1.2)
                if kind == "pooled" and row["rho"] != row["rho"]:
                    ax.text(0, place, "undefined", ha="center", va="center", color="0.5")
        ax.axvline(0, color="0.6", lw=0.7, zorder=0.5)
        ax.set_title(experiment, loc="left")
        ax.set_xlim(-1.05, 1.05)
        ax.set_xticks([-1, -0.5, 0, 0.5, 1])
        ax.set_xlabel(r"Pearson's $\rho$")
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
