"""chen2026, Figure J.12: test samples against misclassified ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import xarray as xr

from flatlab.plotting import curves as trends

FIGURE = {
    "title": "sharpness and compression on test samples and on misclassified ones, VGG",
    "caption": (
        "Learning rate 0.1, batch size 20: mean over seeds 0-4, with a band of one standard "
        "deviation, no wider than the runs. Losses are those of the whole sets; the rest are "
        "means over fixed test samples, and over those test samples that a network gets wrong at "
        "that checkpoint. Where some networks get nothing wrong the mean is over the others; "
        "where none does, there is a gap. The dashed vertical mark: the first checkpoint where "
        "the mean training loss is below 0.01."
    ),
    "grids": ["vgg-grid"],
    "size_inches": [11.0, 7.0],
}


def frame(tables: Mapping[str, xr.Dataset], correlations: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """Five quantities of one setting, on both sets of samples."""
    return trends.frame(
        tables["vgg-grid"],
        trends.ON_TEST_2026,
        {"lr": 0.1, "batch_size": 20},
        ("test", "misclassified"),
    )


def draw(fig: Any, frame: pd.DataFrame) -> None:
    """Two by three panels."""
    trends.draw(fig, frame, trends.titles(trends.ON_TEST_2026), line="samples")
