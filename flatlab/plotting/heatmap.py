"""Template `Heatmap`: a correlation matrix, the numbers printed, coloured by sign and strength."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.plotting.quantities import require
from flatlab.plotting.style import short_label_of

WORDS = {
    "pooled": r"Pearson's $\rho$ over all networks",
    "within": r"Pearson's $\rho$ within settings",
    "between": r"Pearson's $\rho$ of the settings' means",
}


def frame(
    figure: Mapping[str, Any],
    tables: Mapping[str, xr.Dataset],
    correlations: Mapping[str, xr.Dataset],
) -> pd.DataFrame:
    """A pair of quantities per row: x, y, their correlation and its interval."""
    (matrix,) = correlations.values()
    names = figure["quantities"]
    require(matrix, names, "x")
    chosen = matrix[["rho", "low", "high"]].sel(kind=figure["kind"], x=names, y=names)
    rows = chosen.transpose("y", "x").to_dataframe().reset_index()
    return rows[["x", "y", "rho", "low", "high"]]


def draw(fig: Any, frame: pd.DataFrame, figure: Mapping[str, Any]) -> None:
    """A field per pair; the diagonal, which is 1, stays empty, and "?" is no correlation."""
    from seaborn import heatmap

    names = figure["quantities"]
    matrix = frame.pivot_table(index="y", columns="x", values="rho", dropna=False).loc[names, names]
    labels = [short_label_of(name) for name in names]
    words = matrix.map(lambda rho: "?" if np.isnan(rho) else f"{rho:.2f}".replace("-", "−"))
    drawn: dict[str, Any] = {"annot": words, "fmt": "", "linewidths": 0.5}
    drawn |= {"mask": np.eye(len(names), dtype=bool), "vmin": -1, "vmax": 1, "cmap": "RdBu_r"}
    drawn |= {"xticklabels": labels, "yticklabels": labels}
    ax = fig.subplots()
    heatmap(matrix.fillna(0), ax=ax, cbar_kws={"label": WORDS[figure["kind"]]}, **drawn)
    ax.set(xlabel="", ylabel="")
    ax.tick_params(length=0, labelsize=8)
    ax.tick_params("y", labelrotation=0)
    for label in ax.get_xticklabels():
        label.set(rotation=35, ha="right", rotation_mode="anchor")
