"""macdonald2023, Table 2: norms of ReLU networks that fit eight points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import xarray as xr

from flatlab.papers.macdonald2023 import _norms
from flatlab.papers.macdonald2023._frequencies import RELU

FIGURE = {
    "title": "norms of ReLU networks fitted to eight points",
    "caption": (
        "Mean ± standard deviation over networks at the end of training, and in brackets the 95 % "
        "percentile bootstrap interval of the mean. In italics what the paper prints, over 10 "
        "trials. Its points, the width of its networks and the scale of its loss are not known: "
        "compare which of two numbers is larger, not how large they are."
    ),
    "grids": ["regression-relu-grid"],
    "size_inches": [9.0, 3.6],
}


def frame(tables: Mapping[str, xr.Dataset], correlations: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """Three quantities at high and low frequency."""
    return _norms.frame(RELU, tables[RELU])


def draw(fig: Any, frame: pd.DataFrame) -> None:
    """A table."""
    _norms.draw(fig, frame)
