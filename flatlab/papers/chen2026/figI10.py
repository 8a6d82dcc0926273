"""chen2026, Figure I.10: batch sizes, four-layer perceptrons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import xarray as xr

from flatlab.plotting import curves as trends

FIGURE = {
    "title": "sharpness and compression at three batch sizes, multilayer perceptrons",
    "caption": (
        "Learning rate 0.1. Sharpness and compression are means over fixed training samples. Mean "
        "over seeds 0-4 of each setting, with a band of one standard deviation, no wider than the "
        "runs; their number is in the legend. Dashed vertical marks: the first checkpoint where "
        "the mean training loss is below 0.01 and interpolation begins; a setting without one "
        "does not get there."
    ),
    "grids": ["mlp-grid"],
    "size_inches": [11.0, 7.0],
}


def frame(tables: Mapping[str, xr.Dataset], correlations: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """Six quantities of three settings through training."""
    return trends.frame(tables["mlp-grid"], trends.CHEN2026, {"lr": 0.1})


def draw(fig: Any, frame: pd.DataFrame) -> None:
    """Two by three panels."""
    trends.draw(fig, frame, trends.titles(trends.CHEN2026))
