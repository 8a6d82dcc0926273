"""Fashion-MNIST: 60,000 training and 10,000 test images of clothing, 28 x 28 grey pixels.

The four official files are taken from the data folder (as they are, or in torchvision's layout) or
downloaded by torchvision into it; their checksums are torchvision's.
"""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from urllib.error import URLError

import numpy as np
import xarray as xr

from flatlab.data import DataError, dataset

HEADER = {"images": 16, "labels": 8}
"""Bytes before the values in an IDX file of three axes and of one."""


def load(folder: Path) -> xr.Dataset:
    """The official split, values 0-255. Raises `DataError` on a missing or damaged file."""
    from torchvision.datasets import FashionMNIST

    checksums = dict(FashionMNIST.resources)
    places = [folder, folder / "fashion-mnist", folder / "FashionMNIST" / "raw"]
    place = next((p for p in places if all((p / name).is_file() for name in checksums)), None)
    if place is None:
        try:
            FashionMNIST(folder, download=True)
        except (URLError, OSError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise DataError(
                f"Fashion-MNIST is not in {folder} and could not be downloaded ({reason}); put the "
                f"four files {', '.join(checksums)} there, or name their folder by data_folder"
            ) from None
        place = places[-1]

    def read(prefix: str, kind: str) -> np.ndarray:
        name = next(n for n in checksums if n.startswith(f"{prefix}-{kind}"))
        content = (place / name).read_bytes()
        if hashlib.md5(content).hexdigest() != checksums[name]:
            raise DataError(f"{place / name} is damaged (wrong checksum); delete it and run again")
        values = np.frombuffer(gzip.decompress(content), np.uint8, offset=HEADER[kind])
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
