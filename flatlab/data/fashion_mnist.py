"""Fashion-MNIST: 60,000 training and 10,000 test images of clothing, 28 x 28 grey pixels.

The four official files are found in the data folder, directly or in torchvision's layout, or
downloaded into it; the checksums are torchvision's.
"""

import gzip
from pathlib import Path

import numpy as np
import xarray as xr

from flatlab.data._dataset import dataset
from flatlab.data._sources import Published, obtain

SHAPE = (1, 28, 28)
OUTPUTS = 10
FILES = ["train-images-idx3-ubyte.gz"]
"""A file or folder by which it is recognized."""

HEADER = {"images": 16, "labels": 8}
"""Bytes before the values in an IDX file with three axes and with one."""


def load(folder: Path) -> xr.Dataset:
    """The official split, values 0-255. Raises `DataError` for a missing or damaged file."""
    from torchvision.datasets import FashionMNIST

    sources = tuple(FashionMNIST.mirrors)
    files = [Published(name, md5, sources) for name, md5 in FashionMNIST.resources]
    places = [folder, folder / "fashion-mnist", folder / "FashionMNIST" / "raw"]
    paths = obtain("Fashion-MNIST", files, places)

    def read(prefix: str, kind: str) -> np.ndarray:
        path = next(path for path in paths if path.name.startswith(f"{prefix}-{kind}"))
        content = gzip.decompress(path.read_bytes())
        values = np.frombuffer(content, np.uint8, offset=HEADER[kind])
        return values.reshape(-1, 28, 28) if kind == "images" else values

    return dataset(
        train=(read("train", "images"), read("train", "labels")),
        test=(read("t10k", "images"), read("t10k", "labels")),
        maximum=255,
        classes=list(FashionMNIST.classes),
        title="Fashion-MNIST",
        source="Xiao, Rasul and Vollgraf (2017), the official files",
        licence="MIT",
    )
