"""Samples for networks that were trained elsewhere: from files, folders and functions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flatlab.data._arrays import RESIZED, Samples, is_arrays, parts, parts_of, pictures
from flatlab.data._dataset import DataError, load
from flatlab.data._folders import folders
from flatlab.data._tensors import Split, Splits, prepare
from flatlab.execution.own_code import called, function_of
from flatlab.metrics._batches import collected
from flatlab.plan.registry import keys_of
from flatlab.store import load_dataset

TABLE = ".zarr.zip"
"""How the file of a data set ends that the workflow has prepared."""
FORMS = "arrays by name, (x, y), (x, y, x_test, y_test), or one or two loaders"


def splits_of(
    data: str, scaling: str, study: str = "", resize: int | None = None
) -> dict[str, Split]:
    """The training samples, and the test samples where there are some.

    data: a file of arrays, a folder of images, a data set's key or its file in the workflow, or
        `module:function`, which returns arrays by name, two or four arrays, or loaders.
    scaling: of images as published; arrays are as networks see them, bytes divided by 255.
    study: the key of the one whose module it is.
    resize: pixels to which the shorter side of images in a folder is resized, the middle cut out;
        None: as they are. Of resized images all are training samples, and bytes are divided by 255.

    Targets of a split without any are (samples, 0). Raises `DataError` or `MeasureError`.
    """
    path = Path(data)
    if resize and (is_arrays(path) or data.endswith(TABLE) or not path.exists()):
        raise DataError(f"--data {data}: {RESIZED}")
    if is_arrays(path):
        return _from_arrays(parts(path), data)
    if data.endswith(TABLE):
        return _of_classes(prepare(load_dataset(path), *_how(scaling)))
    if ":" in data and not path.exists():
        return _from_function(data, study)
    if resize or (path.is_dir() and not folders(path)):
        return _from_arrays({"train": pictures(path, resize)}, data)
    if path.exists():
        return _of_classes(prepare(load("image-folder", data), *_how(scaling)))
    if data in keys_of("data"):
        return _of_classes(prepare(load(data), *_how(scaling)))
    known = ", ".join(keys_of("data"))
    raise DataError(f"--data {data}: no file, folder or module:function; known data: {known}")


def _how(scaling: str) -> tuple[dict[str, str], None, torch.dtype]:
    return {"classes": "all", "scaling": scaling}, None, torch.float32


def _of_classes(splits: Splits) -> dict[str, Split]:
    return {"train": splits.train, "test": splits.test}


def _from_function(name: str, study: str) -> dict[str, Split]:
    result = called(function_of(name, "--data", study), "--data", name, study)
    if isinstance(result, Mapping):
        arrays = {str(key): np.asarray(value) for key, value in result.items()}
        return _from_arrays(parts_of(arrays, name), name)
    several = result if isinstance(result, tuple | list) else (result,)
    if all(isinstance(part, Tensor | np.ndarray) for part in several) and len(several) in (2, 4):
        names = ("x_train", "y_train", "x_test", "y_test")
        arrays = {key: np.asarray(part) for key, part in zip(names, several, strict=False)}
        return _from_arrays(parts_of(arrays, name), name)
    if len(several) > 2 or not all(hasattr(part, "__iter__") or _indexed(part) for part in several):
        raise DataError(f"--data {name} returned {type(result).__name__}; it must return {FORMS}")
    there: dict[str, Samples] = {}
    for part, loader in zip(("train", "test"), several, strict=False):
        inputs, targets = collected(loader, None, None)
        if not isinstance(inputs, Tensor):
            raise DataError(f"--data {name}: a network of a table has one input, not several")
        there[part] = inputs.numpy(), None if targets is None else np.asarray(targets)
    return _from_arrays(there, name)


def _indexed(part: Any) -> bool:
    return hasattr(part, "__getitem__") and hasattr(part, "__len__")


def _from_arrays(there: Mapping[str, Samples], where: str) -> dict[str, Split]:
    typed = {part: (x, _targets(y, f"{where}: {part}")) for part, (x, y) in there.items()}
    labels = [y for _, y in typed.values() if y is not None and y.ndim == 1 and len(y)]
    width = 1 + max((int(y.max()) for y in labels), default=0)
    return {part: _split(x, y, width) for part, (x, y) in typed.items()}


def _targets(y: np.ndarray | None, where: str) -> np.ndarray | None:
    """Classes (samples,) of whole numbers, or real numbers (samples, outputs)."""
    if y is None:
        return None
    if y.dtype.kind == "f" and y.ndim in (1, 2):
        return y.reshape(len(y), -1)
    if y.ndim == 1 and y.dtype.kind in "iub" and (y.size == 0 or y.min() >= 0):
        return y.astype(np.int64)
    form = "classes from 0 on (samples,) or real numbers (samples, outputs)"
    raise DataError(f"{where}: targets are {y.dtype} {y.shape}; they must be {form}")


def _split(x: np.ndarray, y: np.ndarray | None, width: int) -> Split:
    if x.dtype.kind not in "fiub":
        raise DataError(f"inputs are {x.dtype}; they must be numbers")
    inputs = torch.from_numpy(np.ascontiguousarray(x))
    inputs = inputs / 255 if inputs.dtype == torch.uint8 else inputs
    if y is None:
        return Split(inputs, None, torch.empty(len(inputs), 0))
    targets = torch.from_numpy(np.ascontiguousarray(y))
    if y.ndim == 2:
        return Split(inputs, None, targets)
    return Split(inputs, targets, nn.functional.one_hot(targets, width))
