"""chen2026, Figure 4: local sensitivity against its bounds in the three grids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import xarray as xr

from flatlab.plotting.pairs import HEADROOM, limit, points_of_settings
from flatlab.plotting.style import correlation, in_words, legend, look_of_settings
from flatlab.tables.selection import columns_of, end_of_training

FIGURE = {
    "title": "local sensitivity against its bounds",
    "caption": (
        "One point per network at the end of training. Pearson's correlation over all networks "
        "of a grid, with its 95 % interval in brackets (BCa bootstrap, stratified by setting). "
        "Bounds with the largest singular value of a kernel's matrix; they are theorems for "
        "perceptrons and proxies where convolutions share weights."
    ),
    "grids": ["vgg-grid", "mlp-grid", "lenet-grid"],
    "size_inches": [11.0, 7.6],
}

PAIRS = {"mls": "bound_d", "nmls": "nmls_bound"}
"""Measure and bound, by row."""

LABELS = {
    "mls": "MLS (output/input)",
    "bound_d": "MLS bound (output/input)",
    "nmls": "NMLS (sum over the layers)",
    "nmls_bound": "NMLS bound",
}


def frame(tables: Mapping[str, xr.Dataset], correlations: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """Rows `run`: a network's measure and bound.  Rows `rho`: their correlation, its interval."""
    parts = []
    for grid, table in tables.items():
        chosen = end_of_training(table)
        about = f"{grid}: {chosen.attrs['network']} on {chosen.attrs['data']}"
        for x, y in PAIRS.items():
            columns = columns_of(chosen, [x, y])
            runs = {
                "name": chosen["run"].values,
                "setting": in_words(chosen),
                "x_value": columns[x],
                "y_value": columns[y],
            }
            pair = correlations[grid].sel(kind="pooled", x=x, y=y)
            rho = {kind: [float(pair[kind])] for kind in ("rho", "low", "high")}
            for row, values in (("run", runs), ("rho", rho)):
                head = {"row": row, "grid": about, "x": x, "y": y}
                parts.append(pd.DataFrame({**head, **values}))
    return pd.concat(parts, ignore_index=True)


def draw(fig: Any, frame: pd.DataFrame) -> None:
    """A column per grid, a row per measure."""
    from matplotlib.lines import Line2D

    grids = list(dict.fromkeys(frame["grid"]))
    axes = fig.subplots(len(PAIRS), len(grids), squeeze=False)
    for (x, y), row in zip(PAIRS.items(), axes, strict=True):
        for grid, ax in zip(grids, row, strict=True):
            here = frame[(frame["grid"] == grid) & (frame["x"] == x)]
            runs, rho = (here[here["row"] == kind] for kind in ("run", "rho"))
            points_of_settings(ax, runs, "x_value", "y_value", size=4)
            text = correlation(*rho[["rho", "low", "high"]].iloc[0])
            ax.text(0.03, 0.97, text, transform=ax.transAxes, va="top", fontsize=8)
            limit(ax, "x", runs["x_value"], ticks=6)
            limit(ax, "y", runs["y_value"], headroom=HEADROOM / 2, ticks=6)
            ax.set_xlabel(LABELS[x])
            ax.set_ylabel(LABELS[y])
            ax.set_title(grid if x == "mls" else "", loc="left")
    looks = look_of_settings(frame["setting"].dropna())
    handles = [
        Line2D([], [], ls="", marker=look.marker, color=look.color, ms=5, mew=0, label=setting)
        for setting, look in looks.items()
    ]
    legend(fig, handles, handletextpad=0.1)
