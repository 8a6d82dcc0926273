"""Samples in files of arrays, and images of any size, without parts for training and testing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from flatlab.data._dataset import DataError
from flatlab.data._folders import as_folder, decode, folders, images

ENDINGS = (".npz", ".npy", ".csv", ".safetensors")
INPUTS = ("inputs", "x", "X", "images", "data")
TARGETS = ("targets", "labels", "y", "Y", "target", "label")

Samples = tuple[np.ndarray, np.ndarray | None]
"""Inputs (samples, ...) and their targets, if there are any."""


def is_arrays(place: str | Path) -> bool:
    """Whether the name of a file is that of a file of arrays."""
    return Path(place).suffix.lower() in ENDINGS


def arrays(path: Path) -> Samples:
    """The inputs and targets in a file; `DataError` says what it lacks.

    .npz, .safetensors: arrays named inputs, x, images or data, and targets, labels or y.
    .npy: inputs alone.  .csv: numbers under names; the column target, label or y is the target.
    """
    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False), None
        if path.suffix == ".csv":
            return _columns(path)
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                return _named({name: file[name] for name in file.files}, path)
        from safetensors.numpy import load_file

        return _named(load_file(path), path)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except DataError:
        raise
    except Exception as error:  # each reader has errors of its own
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DataError(f"{path} cannot be read as {path.suffix}: {reason}") from None


def _named(found: Mapping[str, np.ndarray], path: Path) -> Samples:
    names = ", ".join(found) or "nothing"
    inputs = next((found[name] for name in INPUTS if name in found), None)
    if inputs is None:
        raise DataError(f"{path} has {names}; it needs inputs, under the name inputs or x")
    targets = next((found[name] for name in TARGETS if name in found), None)
    if targets is not None and len(targets) != len(inputs):
        raise DataError(f"{path} has {len(inputs)} inputs and {len(targets)} targets")
    return inputs, targets


def _columns(path: Path) -> Samples:
    with path.open() as file:
        names = [name.strip().strip('"') for name in file.readline().split(",")]
    table = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    wanted = [name for name in names if name in TARGETS]
    if len(wanted) > 1:
        raise DataError(f"{path} has several columns of targets: {', '.join(wanted)}")
    inputs = table[:, [name not in TARGETS for name in names]]
    if not wanted:
        return inputs, None
    targets = table[:, names.index(wanted[0])]
    whole = bool((targets == targets.round()).all())
    return inputs, targets.astype(np.int64) if whole else targets


def pictures(place: Path, size: int | None) -> Samples:
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
                "resize them, with --resize in `flatlab measure`"
            )
    labels = np.array([number for number, _ in files]) if by_class else None
    return np.stack(parts), labels
