"""CIFAR-10: 50,000 training and 10,000 test photographs of ten classes, 32 x 32 pixels in colours.

The official archive lies in the data folder, as it is or unpacked, or is downloaded into it; the
checksums are torchvision's. The archive is read without unpacking it to disk.
"""

from __future__ import annotations

import io
import pickle
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from flatlab.data import DataError, dataset
from flatlab.data._sources import Published, check, obtain

SHAPE = (3, 32, 32)
OUTPUTS = 10

HARMLESS = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    # The module as the official files call it, and as numpy 2 does.
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy._core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
}
"""All that a pickle of arrays, dictionaries, lists and text refers to."""


def load(folder: Path) -> xr.Dataset:
    """The official split, values 0-255. Raises `DataError` on a missing or damaged file."""
    from torchvision.datasets import CIFAR10

    train, test = ([name for name, _ in files] for files in (CIFAR10.train_list, CIFAR10.test_list))
    about = CIFAR10.meta["filename"]
    checksums = dict([*CIFAR10.train_list, *CIFAR10.test_list, (about, CIFAR10.meta["md5"])])
    places = [folder / "cifar10", folder]
    unpacked = _unpacked([*(p / CIFAR10.base_folder for p in places), folder], checksums)
    if unpacked:
        batches = {
            name: _unpickle(check(unpacked / name, md5).read_bytes(), unpacked / name)
            for name, md5 in checksums.items()
        }
    else:
        source = CIFAR10.url.rpartition("/")[0]
        archive = Published(CIFAR10.filename, CIFAR10.tgz_md5, (source,))
        (path,) = obtain("CIFAR-10", [archive], places)
        batches = _from_archive(path, CIFAR10.base_folder, checksums)
    return dataset(
        train=_images([batches[name] for name in train]),
        test=_images([batches[name] for name in test]),
        maximum=255,
        classes=list(batches[about][CIFAR10.meta["key"]]),
        title="CIFAR-10",
        source="Krizhevsky (2009), Learning Multiple Layers of Features from Tiny Images, "
        "the official files for Python",
        licence="none stated; the authors ask for a citation of Krizhevsky (2009)",
    )


def _unpacked(places: Iterable[Path], names: Iterable[str]) -> Path | None:
    """The first folder that has all batches."""
    return next((p for p in places if all((p / name).is_file() for name in names)), None)


def _from_archive(path: Path, folder: str, names: Iterable[str]) -> dict[str, Any]:
    wanted = {f"{folder}/{name}": name for name in names}
    batches = {}
    # In the order in which they lie: going back would mean to decompress all from the start.
    with tarfile.open(path, "r|gz") as archive:
        for member in archive:
            if member.name in wanted and (file := archive.extractfile(member)):
                batches[wanted[member.name]] = _unpickle(file.read(), path / member.name)
    if missing := sorted(set(wanted.values()) - set(batches)):
        raise DataError(f"{path} has no {missing[0]}; delete it and run again")
    return batches


def _images(batches: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    inputs = np.concatenate([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32)
    return inputs, np.concatenate([batch["labels"] for batch in batches])


def _unpickle(content: bytes, place: Path) -> dict[str, Any]:
    try:
        return _Unpickler(io.BytesIO(content), encoding="latin1").load()
    except pickle.UnpicklingError as error:
        raise DataError(f"{place} is refused ({error}); get the official file") from None


class _Unpickler(pickle.Unpickler):
    """Makes arrays, dictionaries, lists, bytes and text; refuses everything else by its name."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in HARMLESS:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}, which images do not need")
        return HARMLESS[module, name]
