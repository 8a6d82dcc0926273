"""Template `Heatmap`: a correlation matrix, coloured by sign and strength, with printed values."""

from typing import Any

import numpy as np
import pandas as pd

from flatlab.plotting import Settings, Tables
from flatlab.plotting.quantities import require
from flatlab.plotting.words import label_of

WORDS = {
    "pooled": r"Pearson's $\rho$ over all networks",
    "within": r"Pearson's $\rho$ within settings",
    "between": r"Pearson's $\rho$ of the settings' means",
    "adjusted": r"Pearson's partial $\rho$ given the training loss",
}


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """A pair of quantities per row: x, y, their correlation and its interval."""
    (matrix,) = correlations.values()
    names = figure["quantities"]
    require(matrix, names, "x")
    chosen = matrix[["rho", "low", "high"]].sel(kind=figure["kind"], x=names, y=names)
    rows = chosen.transpose("y", "x").to_dataframe().reset_index()
    return rows[["x", "y", "rho", "low", "high"]]


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A cell per pair; the diagonal, which is 1, stays empty, and "?" is an undefined value."""
    from seaborn import heatmap

    names = figure["quantities"]
    matrix = frame.pivot_table(index="y", columns="x", values="rho", dropna=False).loc[names, names]
    labels = [label_of(figure, name) for name in names]
    ax = fig.subplots()
    heatmap(
        matrix.fillna(0),
        annot=matrix.map(lambda rho: "?" if np.isnan(rho) else f"{rho:.2f}".replace("-", "−")),
        fmt="",
        mask=np.eye(len(names), dtype=bool),
        **{"vmin": -1, "vmax": 1, "cmap": "RdBu_r", "linewidths": 0.5},
        **{"xticklabels": labels, "yticklabels": labels},
        cbar_kws={"label": WORDS[figure["kind"]]},
        ax=ax,
    )
    ax.set(xlabel="", ylabel="")
    ax.tick_params(length=0, labelsize=6.5)
    ax.tick_params("y", labelrotation=0)
    for label in ax.get_xticklabels():
        label.set(rotation=35, ha="right", rotation_mode="anchor")
