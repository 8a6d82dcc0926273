"""chen2024, Figure D.5: pairwise correlations in convolutional networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import xarray as xr

from flatlab.plotting import pairs as pairplot

FIGURE = {
    "title": "sharpness, compression and test loss of VGG networks",
    "caption": (
        "One point per network at the end of training, seeds 0-3 of every setting. Pearson's "
        "correlation over these networks, with its 95 % interval in brackets (BCa bootstrap, "
        "stratified by setting). Sharpness and compression are means over fixed training "
        "samples; G is the mean squared Frobenius norm of the input-output Jacobian."
    ),
    "grids": ["vgg-grid"],
    "size_inches": [10.0, 10.0],
}


def frame(tables: Mapping[str, xr.Dataset], correlations: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """Twenty networks and the correlations of the six quantities over them."""
    return pairplot.frame(
        tables["vgg-grid"], correlations["vgg-grid"], pairplot.CHEN2024, seeds=range(4)
    )


def draw(fig: Any, frame: pd.DataFrame) -> None:
    """Six by six panels."""
    pairplot.draw(fig, frame, pairplot.CHEN2024)
