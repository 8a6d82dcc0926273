"""A sparse linear regression with fewer samples than dimensions; generated here.

andriushchenko2023, Sec. 5.2 has d = 200 dimensions and a ground truth with 90 % zeros. Assumed
here: n = 60 samples, X_ij ~ N(0, 1/n), so that X^T X is the identity on average; non-zeros +-1 at
random places; no noise. The test samples are the unit vectors: there, the errors of a linear
function are the differences between its coefficients and the truth, and d/n times its mean loss is
the expected loss on fresh samples x ~ N(0, I/n).
"""

from pathlib import Path

import numpy as np
import xarray as xr

from flatlab.data._dataset import regression

SHAPE = (200,)
OUTPUTS = 1

SAMPLES, DIMENSION, NONZERO = 60, 200, 20
SEED = 0


def load(folder: Path) -> xr.Dataset:
    """60 training samples (200) with targets (1); the 200 unit vectors for testing.

    `folder` is ignored.
    """
    generator = np.random.default_rng(SEED)
    inputs = generator.normal(scale=SAMPLES**-0.5, size=(SAMPLES, DIMENSION))
    truth = np.zeros((DIMENSION, 1))
    places = generator.choice(DIMENSION, NONZERO, replace=False)
    truth[places, 0] = generator.choice([-1.0, 1.0], NONZERO)
    return regression(
        train=(inputs, inputs @ truth),
        test=(np.eye(DIMENSION), truth),
        title="sparse-regression",
        source="generated: X normal with variance 1/60, 20 of 200 coefficients +1 or -1",
        licence="MIT",
    )
