"""CIFAR-10: 50,000 training and 10,000 test photographs of ten classes, 32 x 32 colour pixels."""

from pathlib import Path

import xarray as xr

from flatlab.data._cifar import official

SHAPE = (3, 32, 32)
OUTPUTS = 10
FILES = ["cifar-10-batches-py", "cifar-10-python.tar.gz"]
"""A file or folder by which it is recognized."""


def load(folder: Path) -> xr.Dataset:
    """The official split, values 0-255. Raises `DataError` for a missing or damaged file."""
    from torchvision.datasets import CIFAR10

    return official(CIFAR10, "CIFAR-10", folder)
