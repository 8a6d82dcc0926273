"""Two Gaussian classes for linear classification by regression; generated here.

andriushchenko2023, Figure 1 shows "a linear model that achieves zero training error" without naming
its data. Those here follow the authors' public notebook: means v and -v, where v is a random unit
vector, and a standard deviation of 0.025 in each of 100 dimensions.
"""

from pathlib import Path

import numpy as np
import xarray as xr

from flatlab.data._dataset import regression

SHAPE = (100,)
OUTPUTS = 1

SAMPLES, DIMENSION = 50, 100
DEVIATION = 0.025
SEED = 0


def load(folder: Path) -> xr.Dataset:
    """50 training and 50 test samples (100); classes alternate, with targets +1 and -1.

    `folder` is ignored.
    """
    generator = np.random.default_rng(SEED)
    mean = generator.normal(size=DIMENSION)
    mean /= np.linalg.norm(mean)

    def draw() -> tuple[np.ndarray, np.ndarray]:
        targets = np.where(np.arange(SAMPLES) % 2, -1.0, 1.0)[:, None]
        noise = generator.normal(scale=DEVIATION, size=(SAMPLES, DIMENSION))
        return targets * mean + noise, targets

    return regression(
        train=draw(),
        test=draw(),
        title="gaussian-pair",
        source="generated: normal around v and -v, |v| = 1",
        licence="MIT",
    )
