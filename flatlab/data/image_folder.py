"""Images sorted into one folder per class: <folder>/<class>/<image>, or with train and test above.

Without the two, every fifth image of a class, in the order of the names, is for testing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr

from flatlab.data import DataError, dataset

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
TEST_EVERY = 5
Images = tuple[np.ndarray, np.ndarray]


def load(folder: Path) -> xr.Dataset:
    """Bytes (height, width), or (3, height, width) where one image has colours."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder")
    if (folder / "train").is_dir() and (folder / "test").is_dir():
        splits = [folder / "train", folder / "test"]
        names = [_classes(split) for split in splits]
        if names[0] != names[1]:
            raise DataError(f"{folder}: train and test have different classes")
        train, test = (_read(split, names[0]) for split in splits)
    else:
        names = [_classes(folder)]
        inputs, labels = _read(folder, names[0])
        place = np.concatenate([np.arange(count) for count in np.bincount(labels)])
        chosen = place % TEST_EVERY == TEST_EVERY - 1
        train, test = (inputs[~chosen], labels[~chosen]), (inputs[chosen], labels[chosen])
    return dataset(
        train,
        test,
        maximum=255,
        classes=names[0],
        title=folder.name,
        source=f"images in the folder {folder.name}",
        licence="",
    )


def _classes(folder: Path) -> list[str]:
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    if len(names) < 2:
        raise DataError(f"{folder} must have a folder for each of at least two classes")
    return names


def _read(folder: Path, classes: list[str]) -> Images:
    from PIL import Image, UnidentifiedImageError

    images, labels = [], []
    for label, name in enumerate(classes):
        paths = sorted(p for p in (folder / name).iterdir() if p.suffix.lower() in ENDINGS)
        if not paths:
            raise DataError(f"{folder / name} has no images ({', '.join(ENDINGS)})")
        for path in paths:
            try:
                with Image.open(path) as image:
                    grey = image.mode in ("1", "L")
                    images.append(np.asarray(image.convert("L" if grey else "RGB")))
            except (OSError, UnidentifiedImageError):
                raise DataError(f"{path} cannot be read as an image") from None
            labels.append(label)
            if images[-1].shape[:2] != images[0].shape[:2]:
                size, first = images[-1].shape[:2], images[0].shape[:2]
                raise DataError(f"{path} has {size} pixels, others have {first}; resize them")
    if any(image.ndim == 3 for image in images):
        images = [
            np.broadcast_to(i if i.ndim == 3 else i[..., None], (*i.shape[:2], 3)) for i in images
        ]
        return np.stack(images).transpose(0, 3, 1, 2), np.array(labels)
    return np.stack(images), np.array(labels)
