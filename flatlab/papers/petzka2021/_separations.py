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
    """A line per value of the column `line`, with a bar of one deviation.

    looks: label and look by these values. Lines are shifted a little, so that bars do not overlap.
    """
    names = rows[line].unique()
    ax.set_xscale("log")
    for number, name in enumerate(names):
        points, (label, look) = rows[rows[line] == name], looks[name]
        at = points["drawn_at"] if "drawn_at" in points else points["separation"]
        x = at * 1.04 ** (number - (len(names) - 1) / 2)
        mean, deviation = points["mean"], points["deviation"]
        ax.plot(x, mean, ms=3, label=label, **look.options)
        ax.vlines(x, mean - deviation, mean + deviation, color=look.color, lw=0.8)
    ax.axhline(0, color="0.6", lw=0.7, zorder=0.5)
    separations = rows["separation"].unique()
    ax.set_xticks(separations, [f"{c:g}" for c in separations])
    ax.minorticks_off()
    ax.set_xlabel("class separation")
    ax.grid(axis="y", lw=0.3, color="0.85")
