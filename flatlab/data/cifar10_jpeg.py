"""CIFAR-10 as JPEG files, one folder per class: evidence on it is reduced.

The images were encoded again, with losses: they are not the original data.
"""

from pathlib import Path

import xarray as xr

from flatlab.data import image_folder

SHAPE = (3, 32, 32)
OUTPUTS = 10
FILES = ["cifar10-jpeg"]
"""A file or folder by which it is recognized."""
REENCODED = ("cifar10", "JPEG")
"""The data set whose images these are, and their encoding."""


def load(folder: Path) -> xr.Dataset:
    """50,000 training and 10,000 test images (3, 32, 32), from `<folder>/cifar10-jpeg`."""
    return image_folder.load(folder / "cifar10-jpeg")
