"""CIFAR-10 as JPEG files by class: what stands in for it, by its own name, where it cannot be had.

The images were encoded anew, with losses: not the original data.
"""

from __future__ import annotations

from pathlib import Path

import xarray as xr

from flatlab.data import DataError, image_folder

SHAPE = (3, 32, 32)
OUTPUTS = 10

FOLDER = "cifar10-jpeg"


def load(folder: Path) -> xr.Dataset:
    """50,000 training and 10,000 test images (3, 32, 32), from `<folder>/cifar10-jpeg`."""
    place = folder / FOLDER
    if not place.is_dir():
        raise DataError(f"{place} is not there: images by class, with train and test above")
    return image_folder.load(place)
