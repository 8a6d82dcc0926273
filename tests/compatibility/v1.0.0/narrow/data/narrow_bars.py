"""Noisy 4 x 4 images with one bright row, made here."""

from pathlib import Path

import numpy as np
import xarray as xr

from flatlab.data import dataset

SHAPE = (1, 4, 4)
OUTPUTS = 3


def load(folder: Path) -> xr.Dataset:
    generator = np.random.default_rng(0)

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.arange(count) % OUTPUTS
        images = generator.integers(12, size=(count, 4, 4))
        images[np.arange(count), labels] += 4
        return images, labels

    classes = ["top", "middle", "low"]
    return dataset(draw(30), draw(30), maximum=16, classes=classes, title="bars", source="made")
