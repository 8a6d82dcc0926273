"""Means with their deviations by class separation: how both figures summarize and draw them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from flatlab.plotting.style import Look


def summary(values: np.ndarray) -> list[float]:
    """Mean, standard deviation and number of the finite values; NaN if there are too few."""
    finite = values[np.isfinite(values)]
    mean = finite.mean() if len(finite) else np.nan
    return [mean, finite.std(ddof=1) if len(finite) > 1 else np.nan, len(finite)]


def draw_lines(
    ax: Any, rows: pd.DataFrame, line: str, looks: Mapping[str, tuple[str, Look]]
) -> None:
    """A line per value of the column `line`, with a bar of one deviation; separations not to scale.

    looks: label and look by these values.
    """
    names = rows[line].unique()
    for number, name in enumerate(names):
        points, (label, look) = rows[rows[line] == name], looks[name]
        x = np.arange(len(points)) + 0.1 * (number - (len(names) - 1) / 2)
        mean, deviation = points["mean"], points["deviation"]
        ax.plot(x, mean, ms=5, label=label, **look.options)
        ax.vlines(x, mean - deviation, mean + deviation, color=look.color, lw=0.8)
    ax.axhline(0, color="0.6", lw=0.7, zorder=0.5)
    separations = rows["separation"].unique()
    ax.set_xticks(range(len(separations)), [f"{c:g}" for c in separations])
    ax.set_xlabel("class separation")
    ax.grid(axis="y", lw=0.3, color="0.85")
