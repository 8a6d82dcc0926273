"""Eight points in the plane for the regression of one real variable on another; generated here.

macdonald2023, App. C.3 regresses "8 points in R^2" without listing them. Assumed here: x equally
spaced in [-1, 1], y drawn once from U(-1, 1). The test samples are a fine grid between the outer
points, for plotting the fitted functions; their targets are unknown, hence NaN.
"""

from pathlib import Path

import numpy as np
import xarray as xr

from flatlab.data._dataset import regression

SHAPE = (1,)
OUTPUTS = 1

POINTS = 8
GRID = 561
"""Test samples: 79 between two neighbouring points, and the points themselves."""

SEED = 0


def load(folder: Path) -> xr.Dataset:
    """8 training samples (1) with targets (1), 561 test samples without; `folder` is ignored."""
    x, line = (np.linspace(-1, 1, count)[:, None] for count in (POINTS, GRID))
    y = np.random.default_rng(SEED).uniform(-1, 1, size=x.shape)
    return regression(
        train=(x, y),
        test=(line, np.full_like(line, np.nan)),
        title="eight-points",
        source="generated: x equally spaced in [-1, 1], y uniform in [-1, 1]",
        licence="MIT",
    )
