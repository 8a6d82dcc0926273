"""Images sorted into one folder per class: <folder>/<class>/<image>, or with train and test above.

Without the two, every fifth image of a class, in the order of the names, is for testing. Each of
the two, or all, may be an archive (.tar, .tar.gz, .tar.bz2, .tar.xz, .zip), which is not unpacked.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import xarray as xr
from tqdm import tqdm

from flatlab.data import DataError, dataset
from flatlab.data._trees import (
    ARCHIVES,
    IMAGES,
    Folder,
    Tree,
    archive_beside,
    is_archive,
    open_archive,
    without_ending,
)

SHAPE = (3, 32, 32)
OUTPUTS = 10
"""A guess, from which disk use is predicted: what there is in the folder is not known then."""

TEST_EVERY = 5
SPLITS = ("train", "test")
Images = tuple[np.ndarray, np.ndarray]


def load(folder: Path) -> xr.Dataset:
    """Bytes (height, width), or (3, height, width) where one image has colours.

    folder: a folder, or one archive; its name is the title.
    """
    trees = _trees(folder)
    names = [_classes(tree) for tree in trees]
    if names[0] != names[-1]:
        raise DataError(f"{folder}: train and test have different classes")
    if len(trees) == 2:
        train, test = _alike(
            folder, *(_read(tree, names[0], part) for tree, part in zip(trees, SPLITS, strict=True))
        )
    else:
        inputs, labels = _read(trees[0], names[0], "images")
        place = np.concatenate([np.arange(count) for count in np.bincount(labels)])
        chosen = place % TEST_EVERY == TEST_EVERY - 1
        train, test = (inputs[~chosen], labels[~chosen]), (inputs[chosen], labels[chosen])
    kind = "archive" if is_archive(folder) else "folder"
    # Also of "." and "..", and without following links.
    name = os.path.basename(os.path.abspath(folder))
    return dataset(
        train,
        test,
        maximum=255,
        classes=names[0],
        title=without_ending(name) if kind == "archive" else name,
        source=f"images in the {kind} {name}",
        licence="",
    )


def _trees(place: Path) -> list[Tree]:
    """The folders of train and test, or the one folder that is both."""
    if is_archive(place):
        return _split(open_archive(place), {})
    if not place.is_dir():
        raise DataError(f"{place} is not a folder or an archive ({', '.join(ARCHIVES)})")
    beside = {part: archive_beside(place, part) for part in SPLITS}
    return _split(Folder(place), {part: path for part, path in beside.items() if path})


def _split(top: Tree, archives: dict[str, Path]) -> list[Tree]:
    folders = top.folders()
    missing = [part for part in SPLITS if part not in folders and part not in archives]
    if not missing:
        return [
            top.below(part) if part in folders else open_archive(archives[part]) for part in SPLITS
        ]
    if archives and len(folders) < 2:
        there = next(iter(archives.values())).name
        raise DataError(f"{top.where()} has {there} but no {missing[0]}; put its archive there")
    return [top]


def _classes(tree: Tree) -> list[str]:
    names = tree.folders()
    if len(names) < 2:
        raise DataError(f"{tree.where()} must have a folder for each of at least two classes")
    return names


def _read(tree: Tree, classes: list[str], part: str) -> Images:
    """The images of all classes in the order of their names, and the labels."""
    places = []
    for label, name in enumerate(classes):
        folder = tree.below(name)
        names = folder.images()
        if not names:
            raise DataError(f"{folder.where()} has no images ({', '.join(IMAGES)})")
        places += [(label, folder, image) for image in names]
    images: list[np.ndarray] = []
    for _, folder, name in tqdm(places, desc=part, unit=" images", disable=None):
        image = _decode(folder, name)
        images.append(image)
        if image.shape[:2] != images[0].shape[:2]:
            size, first = image.shape[:2], images[0].shape[:2]
            raise DataError(
                f"{folder.where(name)} has {size} pixels, others have {first}; resize them"
            )
    return _stack(images), np.array([label for label, _, _ in places])


def _decode(folder: Tree, name: str) -> np.ndarray:
    """Bytes (height, width) of a grey image, (height, width, 3) of all others."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(folder.read(name))) as image:
            mode = image.mode
            if mode[:1] not in "IF":
                return np.asarray(image.convert("L" if mode in ("1", "L") else "RGB"))
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError):
        raise DataError(
            f"{folder.where(name)} cannot be read as an image; replace or delete it"
        ) from None
    raise DataError(f"{folder.where(name)} has more than 8 bits per colour ({mode}); convert it")


def _stack(images: list[np.ndarray]) -> np.ndarray:
    if all(image.ndim == 2 for image in images):
        return np.stack(images)
    colours = np.empty((len(images), 3, *images[0].shape[:2]), np.uint8)
    for place, image in zip(colours, images, strict=True):
        place[...] = image if image.ndim == 2 else image.transpose(2, 0, 1)
    return colours


def _alike(place: Path, train: Images, test: Images) -> tuple[Images, Images]:
    """Both with colours where one of them has colours; `DataError` where their sizes differ."""
    sizes = [inputs.shape[-2:] for inputs, _ in (train, test)]
    if sizes[0] != sizes[1]:
        raise DataError(
            f"{place}: images in test have {sizes[1]} pixels, those in train {sizes[0]}; "
            "resize them"
        )
    if train[0].ndim == test[0].ndim:
        return train, test
    coloured = [
        inputs if inputs.ndim == 4 else np.repeat(inputs[:, None], 3, axis=1)
        for inputs, _ in (train, test)
    ]
    return (coloured[0], train[1]), (coloured[1], test[1])
