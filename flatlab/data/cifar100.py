"""CIFAR-100: 50,000 training and 10,000 test photographs of 100 classes, 32 x 32 colour pixels.

The classes are the fine ones; the 20 coarse ones, each of which has five of them, are ignored.
"""

from pathlib import Path

import xarray as xr

from flatlab.data._cifar import official

SHAPE = (3, 32, 32)
OUTPUTS = 100
FILES = ["cifar-100-python", "cifar-100-python.tar.gz"]
"""A file or folder by which it is recognized."""


def load(folder: Path) -> xr.Dataset:
    """The official split, values 0-255. Raises `DataError` for a missing or damaged file."""
    from torchvision.datasets import CIFAR100

    return official(CIFAR100, "CIFAR-100", folder)
