"""chen2026, Figure H.9: pairwise correlations in convolutional networks (LeNet)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import xarray as xr

from flatlab.plotting import pairs as pairplot

FIGURE = {
    "title": "sharpness, compression and generalization of LeNet networks",
    "caption": (
        "One point per network at the end of training. Pearson's correlation over all "
        "networks, with its 95 % interval in brackets (BCa bootstrap, stratified by setting). "
        "Sharpness, compression and bounds are means over fixed training samples; the gap is "
        "training minus test accuracy in points; relative sharpness is that of the last "
        "layer."
    ),
    "grids": ["lenet-grid"],
    "size_inches": [13.0, 13.0],
}


def frame(tables: Mapping[str, xr.Dataset], correlations: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """The networks of the grid and the correlations of the nine quantities."""
    return pairplot.frame(tables["lenet-grid"], correlations["lenet-grid"], pairplot.CHEN2026)


def draw(fig: Any, frame: pd.DataFrame) -> None:
    """Nine by nine panels."""
    pairplot.draw(fig, frame, pairplot.CHEN2026)
