"""macdonald2023, Figure 30: inputs of three scales, ReLU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import xarray as xr

from flatlab.plotting import curves as trends

FIGURE = {
    "title": "sharpness and Jacobian norm at three input scales, ReLU",
    "caption": (
        "Gradient descent with all training samples: the first of the data set, or of a fixed "
        "random order where it lies class by class. Sharpness is the largest eigenvalue of the "
        "Hessian of the training loss; the Jacobian norm is the largest spectral norm, among the "
        "samples, of the softmaxed network's Jacobian with respect to the scaled input. Both on "
        "fixed training samples; mean over the seeds of each scale, with a band of one standard "
        "deviation, no wider than the runs. The paper's caption says label smoothing, but it is "
        "the input scale that varies."
    ),
    "grids": ["input-scale-grid"],
    "size_inches": [9.0, 4.6],
}


def frame(tables: Mapping[str, xr.Dataset], correlations: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """Two quantities of three settings through training."""
    table = tables["input-scale-grid"]
    return trends.frame(table, trends.MACDONALD2023, {"activation": "relu"}, windows=False)


def draw(fig: Any, frame: pd.DataFrame) -> None:
    """Two panels, side by side."""
    trends.draw(fig, frame, trends.titles(trends.MACDONALD2023), columns=2)
