"""beyond, Figure 3: correlations between networks depend on when they are measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import xarray as xr

from flatlab.papers.beyond.fig2 import LOOKS
from flatlab.plotting import curves as trends
from flatlab.stats import Correlations
from flatlab.tables.selection import columns_of, measured, through_training

FIGURE = {
    "title": "correlations between networks through their training",
    "caption": (
        "Pearson's correlation at each checkpoint, over the networks of seeds 0-4 of every "
        "setting, and within settings, where each network counts by its deviation from the mean "
        "of its setting; bands are 95 % intervals (BCa bootstrap of 2,000 "
        "resamples, stratified by setting). "
        "Figures that show correlations show those of the last checkpoint."
    ),
    "grids": ["mlp-grid", "vgg-grid"],
    "size_inches": [12.0, 6.4],
}

RESAMPLES = 2000
"""A fifth of what a single correlation has: there are hundreds."""

PAIRS = {
    ("root_sharpness", "mls"): r"$\sqrt{S}$ and MLS",
    ("root_sharpness", "log_volume"): r"$\sqrt{S}$ and log volume",
    ("mls", "bound_d"): "MLS and its bound D",
    ("nmls", "nmls_bound"): "NMLS and its bound",
}


def frame(tables: Mapping[str, xr.Dataset], correlations: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """A correlation of one kind, at one checkpoint, with its interval, per row."""
    rows = []
    names = list(dict.fromkeys(name for pair in PAIRS for name in pair))
    for grid, table in tables.items():
        runs = through_training(table).sel(samples="train")
        about = f"{grid}: {runs.attrs['network']} on {runs.attrs['data']}"
        # Settings that are kept at other checkpoints than the rest would change who is compared.
        steps = runs["checkpoint"].values[measured(runs).all("run").values]
        first = 1 if trends.log_spaced(steps) else 0  # where a logarithmic axis can begin
        for step in steps[steps >= first]:
            at = runs.sel(checkpoint=step)
            found = Correlations(columns_of(at, names), list(at["setting"].values), RESAMPLES)
            for kind in LOOKS:
                matrices = found.matrix(kind)[:3]
                for x, y in PAIRS:
                    place = found.names.index(x), found.names.index(y)
                    values = [float(matrix[place]) for matrix in matrices]
                    rows.append([about, kind, x, y, float(step), *values, found.runs_used(x, y)])
    columns = ["grid", "kind", "x", "y", "iteration", "rho", "low", "high", "runs"]
    return pd.DataFrame(rows, columns=columns)


def draw(fig: Any, frame: pd.DataFrame) -> None:
    """A row per grid, a column per pair, a line per kind of correlation."""
    from matplotlib.lines import Line2D

    grids = list(dict.fromkeys(frame["grid"]))
    every = fig.subplots(max(1, len(grids)), len(PAIRS), sharey=True, squeeze=False)
    for grid, axes in zip(grids, every, strict=False):
        for (pair, title), ax in zip(PAIRS.items(), axes, strict=True):
            here = frame[
                (frame["grid"] == grid) & (frame["x"] == pair[0]) & (frame["y"] == pair[1])
            ]
            for kind, (color, marker, _) in LOOKS.items():
                line = here[here["kind"] == kind]
                ax.plot(line["iteration"], line["rho"], marker, ls="-", color=color, ms=3, lw=1.1)
                ax.fill_between(
                    line["iteration"], line["low"], line["high"], color=color, alpha=0.15, lw=0
                )
            ax.axhline(0, color="0.6", lw=0.7, zorder=0.5)
            ax.set_ylim(-1.05, 1.05)
            ax.set_title(f"{title}\n{grid}", loc="left")
            unit = trends.horizontal(ax, sorted(set(frame["iteration"][frame["grid"] == grid])))
            ax.set_xlabel(unit)
        axes[0].set_ylabel(r"Pearson's $\rho$")
    handles = [
        Line2D([], [], color=color, marker=marker, ms=4, lw=1.1, label=label)
        for color, marker, label in LOOKS.values()
    ]
    fig.legend(handles=handles, loc="outside upper left", ncols=2)
