"""chen2026, Figure H.6: the chain of bounds between MLS and sharpness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import xarray as xr

from flatlab.plotting import curves as trends

FIGURE = {
    "title": "MLS and its bounds A to D, multilayer perceptrons",
    "caption": (
        "Learning rate 0.1, batch size 20: mean over seeds 0-4, with a band of one standard "
        "deviation, no wider than the runs, of means over fixed training samples. A is the "
        "maximum local sensitivity (MLS), which B, C and D bound in turn (Eq. 59 of chen2026). "
        "The dashed vertical mark: the first checkpoint where the mean training loss is below "
        "0.01."
    ),
    "grids": ["mlp-grid"],
    "size_inches": [11.0, 5.0],
}


def frame(tables: Mapping[str, xr.Dataset], correlations: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """The four members of the chain, one setting."""
    return trends.frame(tables["mlp-grid"], trends.BOUND_LINES, {"lr": 0.1, "batch_size": 20})


def draw(fig: Any, frame: pd.DataFrame) -> None:
    """Two panels, which differ in their axis."""
    trends.draw_bounds(fig, frame)
