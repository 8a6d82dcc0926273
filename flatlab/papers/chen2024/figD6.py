"""chen2024, Figure D.6: pairwise correlations in four-layer perceptrons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import xarray as xr

from flatlab.plotting import pairs as pairplot

FIGURE = {
    "title": "sharpness, compression and test loss of multilayer perceptrons",
    "caption": (
        "One point per network at the end of training, seeds 0-3 of every setting. Pearson's "
        "correlation over these networks, with its 95 % interval in brackets (BCa bootstrap, "
        "stratified by setting). Sharpness, compression and bounds are means over fixed "
        "training samples; G is the mean squared Frobenius norm of the input-output Jacobian."
    ),
    "grids": ["mlp-grid"],
    "size_inches": [12.0, 12.0],
}

NAMES = (*pairplot.CHEN2024, "bound_c", "bound_d")


def frame(tables: Mapping[str, xr.Dataset], correlations: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """Twenty networks and the correlations of the eight quantities over them."""
    return pairplot.frame(tables["mlp-grid"], correlations["mlp-grid"], NAMES, seeds=range(4))


def draw(fig: Any, frame: pd.DataFrame) -> None:
    """Eight by eight panels."""
    pairplot.draw(fig, frame, NAMES)
