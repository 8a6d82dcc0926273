"""Handwritten digits from scikit-learn: 1,797 images of 8 x 8 pixels, shipped with the library.

They are the test set of the UCI "Optical Recognition of Handwritten Digits" and have no split of
their own. The split here is fixed: of each class, shuffled, every fifth image is for testing.
"""

from pathlib import Path

import numpy as np
import xarray as xr

from flatlab.data._dataset import dataset

SHAPE = (1, 8, 8)
OUTPUTS = 10

TEST_EVERY = 5
SPLIT_SEED = 0


def load(folder: Path) -> xr.Dataset:
    """1,433 training and 364 test images (8, 8) with values 0-16; `folder` is ignored."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    order = np.random.default_rng(SPLIT_SEED).permutation(len(raw.target))
    test = np.zeros(len(raw.target), dtype=bool)
    for label in range(10):
        test[order[raw.target[order] == label][::TEST_EVERY]] = True
    return dataset(
        train=(raw.images[~test], raw.target[~test]),
        test=(raw.images[test], raw.target[test]),
        maximum=16,
        classes=[str(digit) for digit in range(10)],
        title="digits",
        source="scikit-learn load_digits: UCI Optical Recognition of Handwritten Digits, test part",
        licence="CC BY 4.0",
    )
