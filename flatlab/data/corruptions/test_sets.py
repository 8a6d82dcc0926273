"""Corrupted test sets: made here, or the published files of CIFAR-10-C."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from flatlab.data._dataset import Arrays, DataError
from flatlab.data.corruptions.images import MADE, corrupted

SEVERITIES = range(1, 6)
FOLDER = "CIFAR-10-C"
"""The folder of the published files in the data folder."""

CIFAR10 = (3, 32, 32), 10
"""The shape of the published images, and the number of their classes."""


def test_set(raw: xr.Dataset, chosen: Mapping[str, Any], classes: Any, folder: Path) -> Arrays:
    """Corrupted test images of a data set, with values up to its maximum, and their labels.

    raw: the data file.
    chosen: `corruptions`, `severity`, `size`, `source` and `seed`. Each corruption has the same
        images, which the seed draws; there are `size` of all corruptions together.
    classes: the labels to keep, or "all".
    folder: where published files are.
    """
    if "maximum" not in raw.attrs:
        raise DataError(f"measure.test_sets: {raw.attrs['title']} has no images; leave them out")
    published, names = chosen["source"] == "published", chosen["corruptions"]
    if published and (raw["test_inputs"].shape[1:], len(raw.attrs["classes"])) != CIFAR10:
        title = raw.attrs["title"]
        raise DataError(
            f"measure.test_sets: the published images are not those of {title}; set source: made"
        )
    names = [*MADE, *["frost"] * published] if names == "all" else names
    count = -(-chosen["size"] // len(names))
    sets = []
    for name in names:
        if published:
            inputs, labels = of_cifar10_c(folder, name, chosen["severity"])
        else:
            inputs, labels = raw["test_inputs"].values, raw["test_labels"].values
        candidates = np.flatnonzero(np.isin(labels, labels if classes == "all" else classes))
        if len(candidates) < count:
            raise DataError(
                f"measure.test_sets: size is {chosen['size']}, but there are {len(candidates)} "
                f"images of each of {len(names)} corruptions"
            )
        drawn = np.sort(np.random.default_rng(chosen["seed"]).permutation(candidates)[:count])
        images = inputs[drawn] / (255 if published else raw.attrs["maximum"])
        if not published:
            images = corrupted(images, name, chosen["severity"], chosen["seed"])
        sets.append((images * raw.attrs["maximum"], labels[drawn]))
    images, labels = (
        np.concatenate(arrays)[: chosen["size"]] for arrays in zip(*sets, strict=True)
    )
    return images, labels


def of_cifar10_c(folder: Path, corruption: str, severity: int) -> Arrays:
    """The published images (10000, 3, 32, 32), with values up to 255, and their labels."""
    place = folder / FOLDER
    arrays = []
    for name in (corruption.replace("-", "_"), "labels"):
        path = place / f"{name}.npy"
        try:
            arrays.append(np.load(path, mmap_mode="r", allow_pickle=False))
        except FileNotFoundError:
            raise DataError(
                f"{path} is missing; put the files of CIFAR-10-C there, or set source: made"
            ) from None
        except (OSError, ValueError, EOFError):
            raise DataError(f"{path} is damaged; replace it") from None
    images, labels = arrays
    count = len(labels) // len(SEVERITIES)
    if images.shape != (len(labels), 32, 32, 3) or images.dtype != np.uint8:
        raise DataError(f"{place} has images {images.shape} and {len(labels)} labels; replace it")
    rows = slice((severity - 1) * count, severity * count)
    return images[rows].transpose(0, 3, 1, 2), np.asarray(labels[rows], np.int64)
