"""beyond, Figure 2: what conventions do to the correlations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.stats import Correlations
from flatlab.stats.correlation import Kind
from flatlab.tables.selection import columns_of, end_of_training

FIGURE = {
    "title": "what conventions do to the correlations",
    "caption": (
        "Pearson's correlations at the end of training with their 95 % intervals (BCa bootstrap, "
        "stratified by setting): over all networks of a grid, and within settings, where each "
        "network counts by its deviation from the mean of its setting. Sharpness as S and as its "
        "square root; the log volume of all singular values and, as in the authors' code, of the "
        "three largest (with two outputs there are two); the MLS bound D with each norm of a "
        "kernel: the largest singular value of its matrix, that of the convolution as an "
        "operator, and the authors' sqrt(positions) x Frobenius."
    ),
    "grids": ["vgg-grid", "mlp-grid", "lenet-grid"],
    "size_inches": [11.0, 5.6],
}

ROOT, PLAIN, BOUND = r"$\sqrt{S}$", "$S$", "MLS"
PAIRS = {
    ("root_sharpness", "log_volume"): (ROOT, "log volume"),
    ("root_sharpness", "log_volume_of_three"): (ROOT, "log volume of three"),
    ("root_sharpness", "mls"): (ROOT, "MLS"),
    ("root_sharpness", "nmls"): (ROOT, "NMLS"),
    ("sharpness", "log_volume"): (PLAIN, "log volume"),
    ("sharpness", "log_volume_of_three"): (PLAIN, "log volume of three"),
    ("sharpness", "mls"): (PLAIN, "MLS"),
    ("sharpness", "nmls"): (PLAIN, "NMLS"),
    ("mls", "bound_d kernel"): (BOUND, "D, matrix norm"),
    ("mls", "bound_d operator"): (BOUND, "D, operator norm"),
    ("mls", "bound_d frobenius"): (BOUND, "D, authors' norm"),
}
"""Pairs of quantities with their names, grouped by the first."""

MEASURES = ["root_sharpness", "sharpness", "log_volume", "log_volume_of_three", "mls", "nmls"]
LOOKS: dict[Kind, tuple[str, str, str]] = {
    "pooled": ("#222222", "o", "all networks"),
    "within": ("#c05621", "D", "within settings"),
}


def frame(tables: Mapping[str, xr.Dataset], correlations: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """A correlation with its interval per row, and the number of runs that have both values."""
    rows = []
    for grid, table in tables.items():
        end = end_of_training(table)
        columns = columns_of(end, MEASURES)
        for norm in ("kernel", "operator", "frobenius"):
            columns[f"bound_d {norm}"] = end["bound_by_norm"].sel(norm=norm, bound="d").values
        # The operator norm is measured where a grid asks for it; elsewhere it has no values.
        columns = {name: values for name, values in columns.items() if np.isfinite(values).any()}
        found = Correlations(columns, list(end["setting"].values))
        about = f"{grid}: {end.attrs['network']} on {end.attrs['data']}"
        for kind in ("pooled", "within"):
            matrices = found.matrix(kind)[:3]
            for x, y in PAIRS:
                values, runs = [np.nan] * 3, 0
                if {x, y} <= {*columns}:
                    place = found.names.index(x), found.names.index(y)
                    values = [float(matrix[place]) for matrix in matrices]
                    runs = found.runs_used(x, y)
                rows.append([about, kind, x, y, *values, runs])
    names = ["grid", "kind", "x", "y", "rho", "low", "high", "runs"]
    return pd.DataFrame(rows, columns=names)


def draw(fig: Any, frame: pd.DataFrame) -> None:
    """A column per grid, a line per pair; groups of pairs apart."""
    from matplotlib.lines import Line2D

    grids = list(dict.fromkeys(frame["grid"]))
    firsts = [names[0] for names in PAIRS.values()]
    groups = list(dict.fromkeys(firsts))
    places = [-n - 0.7 * groups.index(first) for n, first in enumerate(firsts)]
    axes = fig.subplots(1, len(grids), sharex=True, sharey=True, squeeze=False)[0]
    for grid, ax in zip(grids, axes, strict=True):
        for kind, (color, marker, _) in LOOKS.items():
            here = frame[(frame["grid"] == grid) & (frame["kind"] == kind)]
            shift = 0.15 if kind == "pooled" else -0.15
            for place, (_, row) in zip(places, here.iterrows(), strict=True):
                ax.plot(row["rho"], place + shift, marker, color=color, ms=5, mew=0)
                ax.plot([row["low"], row["high"]], [place + shift] * 2, color=color, lw=1.2)
                if kind == "pooled" and row["rho"] != row["rho"]:
                    ax.text(0, place, "undefined", ha="center", va="center", color="0.5")
        ax.axvline(0, color="0.6", lw=0.7, zorder=0.5)
        ax.set_title(grid, loc="left")
        ax.set_xlim(-1.05, 1.05)
        ax.set_xticks([-1, -0.5, 0, 0.5, 1])
        ax.set_xlabel(r"Pearson's $\rho$")
        ax.grid(axis="x", lw=0.3, color="0.85")
    axes[0].set_yticks(places, [f"{a} and {b}" for a, b in PAIRS.values()], fontsize=8)
    handles = [
        Line2D([], [], color=color, marker=marker, ms=5, mew=0, lw=1.2, label=label)
        for color, marker, label in LOOKS.values()
    ]
    fig.legend(handles=handles, loc="outside upper left", ncols=2)
