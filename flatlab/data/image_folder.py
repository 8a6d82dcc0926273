"""Images in one folder per class: <folder>/<class>/<image>, or with `train` and `test` above.

Without `train` and `test`, every fifth image of a class, in the order of the names, is for testing.
Each of the two, or the whole, may be an archive (.tar, .tar.gz, .tar.bz2, .tar.xz, .zip).
"""

import itertools
import os
from pathlib import Path

import numpy as np
import xarray as xr
from tqdm import tqdm

from flatlab.data._dataset import DataError, dataset
from flatlab.data._folders import ARCHIVES, IMAGES, as_folder, decode, folders, images

SHAPE = (3, 32, 32)
OUTPUTS = 10
"""Guesses for the prediction of disk use, which is made before the folder is read."""

TEST_EVERY = 5
SPLITS = ("train", "test")


def load(folder: Path) -> xr.Dataset:
    """Bytes (samples, height, width), or (samples, 3, height, width) if any image has colours.

    folder: a folder, or one archive; its name is the title.
    """
    # Resolve "." and "..", but not links.
    name = os.path.basename(os.path.abspath(folder))
    files: list[list[tuple[str, Path]]] = []  # of each split, with their classes
    for place in _splits(folder):
        if len(classes := folders(place)) < 2:
            raise DataError(f"{place} must have a folder for each of at least two classes")
        files.append(
            [(class_folder.name, file) for class_folder in classes for file in _files(class_folder)]
        )
    names = sorted({label for label, _ in files[0]})
    if names != sorted({label for label, _ in files[-1]}):
        raise DataError(f"{folder}: train and test have different classes")
    together = [*itertools.chain(*files)]
    labels = np.array([names.index(label) for label, _ in together])
    inputs = _pixels([file for _, file in together], name)
    if len(files) == 2:
        test = np.arange(len(labels)) >= len(files[0])
    else:
        places = np.concatenate([np.arange(count) for count in np.bincount(labels)])
        test = places % TEST_EVERY == TEST_EVERY - 1
    ending = next((e for e in ARCHIVES if folder.is_file() and name.lower().endswith(e)), "")
    return dataset(
        train=(inputs[~test], labels[~test]),
        test=(inputs[test], labels[test]),
        maximum=255,
        classes=names,
        title=name[: len(name) - len(ending)],
        source=f"images in the {'archive' if ending else 'folder'} {name}",
        licence="",
    )


def _splits(place: Path) -> list[Path]:
    """The folders of train and test, or the one folder that is to be split."""
    top = as_folder(place)
    by_split = {split: _split(top, split) for split in SPLITS}
    present = [path for path in by_split.values() if path]
    if len(present) == 2:
        return [as_folder(path) for path in present]
    if present and len(folders(top)) < 2:
        missing = next(split for split, path in by_split.items() if not path)
        raise DataError(f"{place} has {present[0].name} but no {missing}; put it there as well")
    return [top]


def _split(folder: Path, name: str) -> Path | None:
    """The folder of a name in a folder, else its archive: train.tar.xz for train."""
    if (folder / name).is_dir():
        return folder / name
    archives = [path for path in (folder / f"{name}{e}" for e in ARCHIVES) if path.is_file()]
    if len(archives) > 1:
        raise DataError(f"{folder} has {archives[0].name} and {archives[1].name}; keep one of them")
    return archives[0] if archives else None


def _files(folder: Path) -> list[Path]:
    if not (files := images(folder)):
        raise DataError(f"{folder} has no images ({', '.join(IMAGES)})")
    return files


def _pixels(files: list[Path], name: str) -> np.ndarray:
    """The images in files as bytes; grey ones become colour images if there are any of those."""
    arrays: list[np.ndarray] = []
    for file in tqdm(files, desc=name, unit=" images", disable=None):
        image = decode(file)
        if image.mode[:1] in "IF":
            raise DataError(f"{file} has more than 8 bits per colour ({image.mode}); convert it")
        grey = image.mode in ("1", "L")
        array = np.asarray(image.convert("L" if grey else "RGB"))
        arrays.append(array if grey else array.transpose(2, 0, 1))
        size, first = arrays[-1].shape[-2:], arrays[0].shape[-2:]
        if size != first:
            raise DataError(f"{file} has {size} pixels, others have {first}; resize them")
    shape = max((array.shape for array in arrays), key=len)
    return np.stack([np.broadcast_to(array, shape) for array in arrays])
