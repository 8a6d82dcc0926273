"""Samples in a file of numpy, as the networks see them."""

from collections.abc import Mapping
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor, nn

from flatlab.data._dataset import DataError
from flatlab.data._tensors import Split

NAMES = {
    "train": (
        ("train_inputs", "x_train", "inputs", "x"),
        ("train_targets", "y_train", "targets", "y"),
    ),
    "test": (("test_inputs", "x_test"), ("test_targets", "y_test")),
}
"""What inputs and targets of each part may be called; targets also `labels`."""


def load_npz(path: Path) -> dict[str, Split]:
    """The parts of a file, `train` and perhaps `test`; `DataError` if there is no such part.

    Inputs are (samples, ...) real numbers, exactly as a network is given them; targets are classes,
    whole numbers (samples,), or real numbers (samples, outputs).
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name.lower(): file[name] for name in file.files}
    except (OSError, ValueError, BadZipFile) as error:
        raise DataError(f"{path} cannot be read as .npz: {error}") from None
    parts = {part: _part(path, arrays, part) for part in NAMES}
    there = {part: pair for part, pair in parts.items() if pair is not None}
    if "train" not in there:
        names = ", ".join(arrays) or "nothing"
        raise DataError(f"{path} has {names}; it needs x_train and y_train, or inputs and labels")
    classes = [pair[1] for pair in there.values() if pair[1].ndim == 1]
    width = 1 + max((int(labels.max()) for labels in classes), default=0)
    return {part: _split(*pair, width) for part, pair in there.items()}


def _part(
    path: Path, arrays: Mapping[str, np.ndarray], part: str
) -> tuple[np.ndarray, np.ndarray] | None:
    inputs, targets = NAMES[part]
    labels = [name.replace("targets", "labels") for name in targets if "targets" in name]
    x = next((arrays[name] for name in inputs if name in arrays), None)
    y = next((arrays[name] for name in (*targets, *labels) if name in arrays), None)
    if x is None or y is None:
        return None
    if len(x) != len(y):
        raise DataError(f"{path}: {part}: there are {len(x)} inputs and {len(y)} targets")
    if x.dtype.kind != "f":
        remedy = "save the real numbers that your networks are given, scaled as in their training"
        raise DataError(f"{path}: {part}: inputs are {x.dtype}; {remedy}")
    whole = y.ndim == 1 and y.dtype.kind in "iu" and (y.size == 0 or y.min() >= 0)
    if not whole and not (y.ndim == 2 and y.dtype.kind == "f"):
        form = "classes from 0 on (samples,) or real numbers (samples, outputs)"
        raise DataError(f"{path}: {part}: targets are {y.dtype} {y.shape}; they must be {form}")
    return x, y


def _split(x: np.ndarray, y: np.ndarray, width: int) -> Split:
    inputs: Tensor = torch.from_numpy(x)
    if y.ndim == 2:
        return Split(inputs, None, torch.from_numpy(y))
    labels = torch.from_numpy(y.astype(np.int64))
    return Split(inputs, labels, nn.functional.one_hot(labels, width))
