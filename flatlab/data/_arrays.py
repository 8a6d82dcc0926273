"""Samples in files of arrays, perhaps for training and testing, and images of any size."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from flatlab.data._dataset import DataError
from flatlab.data._folders import as_folder, decode, folders, images

ENDINGS = (".npz", ".npy", ".csv", ".safetensors")
TARGETS = ("targets", "labels", "y", "target", "label")
PARTS = ("train", "test")
RESIZED = "--resize is of images in a folder or an archive; other samples are taken as they are"

Inputs = np.ndarray | dict[str, np.ndarray]
"""(samples, ...), or several under the names of the network's arguments."""
Pair = tuple[Inputs, np.ndarray | None]
"""Inputs and their targets, if there are any."""


def is_arrays(place: str | Path) -> bool:
    """Whether the name of a file is that of a file of arrays."""
    return Path(place).suffix.lower() in ENDINGS


def parts(path: Path) -> dict[str, Pair]:
    """The samples in a file, `train` and perhaps `test`; `DataError` says what it lacks.

    .npz, .safetensors: an array of inputs under any name, or several under the names of the
        network's arguments; and one named targets, labels or y. Those of a part are x_train,
        train_x, y_test, ...
    .npy: inputs alone.  .csv: numbers under names; the column target, label or y is the target.
    """
    try:
        return parts_of(_content(path), str(path))
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except DataError:
        raise
    except Exception as error:  # each reader has errors of its own
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DataError(f"{path} cannot be read as {path.suffix}: {reason}") from None


def parts_of(named: Mapping[str, np.ndarray], where: str) -> dict[str, Pair]:
    """The parts among named arrays, as `parts` has them.

    named: arrays as in a file .npz.
    where: they lie, for messages.
    """
    there: dict[str, Pair] = {}
    for part in PARTS:
        bases = {name: _base(name, part) for name in named}
        ordered = sorted(named, key=lambda name: bases[name] != name)  # x before x_train
        of_part = {bases[name]: named[name] for name in ordered if bases[name]}
        inputs = {name: array for name, array in of_part.items() if name.lower() not in TARGETS}
        targets = [array for name, array in of_part.items() if name not in inputs]
        if len(targets) > 1:
            raise DataError(f"{where} has several arrays of targets for {part}; keep one")
        if inputs:
            _check_lengths(inputs, targets, where)
            alone = next(iter(inputs.values())) if len(inputs) == 1 else inputs
            there[part] = alone, targets[0] if targets else None
    if PARTS[0] not in there:
        names = ", ".join(named) or "nothing"
        raise DataError(
            f"{where} has {names}; it needs inputs, called x or x_train, or like the arguments of "
            "the network where it has several"
        )
    return there


def _base(name: str, part: str) -> str:
    """The name of an array without that of its part; "" where it is one of another part."""
    for each in PARTS:
        for base in (name[len(each) + 1 :], name[: -len(each) - 1]):
            if base and name.lower() in (f"{each}_{base}".lower(), f"{base}_{each}".lower()):
                return base if each == part else ""
    return name if part == PARTS[0] else ""


def _check_lengths(inputs: dict[str, np.ndarray], targets: list[np.ndarray], where: str) -> None:
    arrays = inputs if len(inputs) > 1 else {"inputs": next(iter(inputs.values()))}
    arrays = arrays | ({"targets": targets[0]} if targets else {})
    counts = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len({*counts.values()}) > 1:
        there = " and ".join(f"{count} {name}" for name, count in counts.items())
        raise DataError(f"{where} has {there}")


def _content(path: Path) -> dict[str, np.ndarray]:
    """The arrays in a file by name."""
    if path.suffix == ".npy":
        return {"inputs": np.load(path, allow_pickle=False)}
    if path.suffix == ".csv":
        return _columns(path)
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    from safetensors.numpy import load_file

    return dict(load_file(path))


def _columns(path: Path) -> dict[str, np.ndarray]:
    with path.open() as file:
        names = [name.strip().strip('"') for name in file.readline().split(",")]
    table = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    wanted = [name for name in names if name.lower() in TARGETS]
    if len(wanted) > 1:
        raise DataError(f"{path} has several columns of targets: {', '.join(wanted)}")
    inputs = table[:, [name not in wanted for name in names]]
    if not wanted:
        return {"inputs": inputs}
    targets = table[:, names.index(wanted[0])]
    whole = bool((targets == targets.round()).all())
    return {"inputs": inputs, TARGETS[0]: targets.astype(np.int64) if whole else targets}


def pictures(place: Path, size: int | None) -> Pair:
    """Images as bytes (samples, 3, height, width), and the numbers of their folders, if any.

    place: a folder or an archive.
    size: height and width to which the shorter side is resized, and the middle cut out; None: as
        they are, which must be the same for all.
    """
    from PIL import Image, ImageOps

    top = as_folder(place)
    by_class = folders(top)
    files = [(number, file) for number, folder in enumerate(by_class) for file in images(folder)]
    files = files or [(0, file) for file in images(top)]
    if not files:
        raise DataError(f"{place} has no images")
    parts = []
    for _, file in tqdm(files, desc=place.name, unit=" images", disable=None):
        image: Any = decode(file).convert("RGB")
        if size is not None:
            image = ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR)
        parts.append(np.asarray(image).transpose(2, 0, 1))
        if parts[-1].shape != parts[0].shape:
            raise DataError(
                f"{file} has {parts[-1].shape[1:]} pixels, others have {parts[0].shape[1:]}; "
                "resize them (--resize)"
            )
    labels = np.array([number for number, _ in files]) if by_class else None
    return np.stack(parts), labels
