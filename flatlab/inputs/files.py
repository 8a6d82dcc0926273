"""Samples for networks that were trained elsewhere: from files, folders and functions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from flatlab.core.registry import keys_of
from flatlab.core.store import load_dataset
from flatlab.core.user_code import called, function_of
from flatlab.data._arrays import RESIZED, Inputs, Pair, is_arrays, parts, parts_of, pictures
from flatlab.data._dataset import DataError, load
from flatlab.data._folders import folders
from flatlab.data._tensors import prepare
from flatlab.inputs.adapted import Structure
from flatlab.inputs.batches import collected
from flatlab.measuring.quantity import SampleSet

TABLE = ".zarr.zip"
"""How the file of a data set ends that the workflow has prepared."""
FORMS = "arrays by name, (x, y), (x, y, x_test, y_test), or one or two loaders"


def parts_of_data(
    data: str, scaling: str, study: str = "", resize: int | None = None
) -> dict[str, SampleSet]:
    """The training samples, and the test samples where there are some.

    data: a file of arrays, a folder of images, a data set's key or its file in the workflow, or
        `module:function`, which returns arrays by name, two or four arrays, or loaders.
    scaling: of images as published; arrays are as networks see them, bytes divided by 255.
    study: the key of the one whose module it is.
    resize: pixels to which the shorter side of images in a folder is resized, the middle cut out;
        None: as they are. Of resized images all are training samples, and bytes are divided by 255.

    Raises `DataError` or `MeasureError`.
    """
    path = Path(data)
    if resize and (is_arrays(path) or data.endswith(TABLE) or not path.exists()):
        raise DataError(f"--data {data}: {RESIZED}")
    if is_arrays(path):
        return _from_arrays(parts(path), data)
    if data.endswith(TABLE):
        return _prepared(load_dataset(path), scaling)
    if ":" in data and not path.exists():
        return _from_function(data, study)
    if resize or (path.is_dir() and not folders(path)):
        return _from_arrays({"train": pictures(path, resize)}, data)
    if path.exists():
        return _prepared(load("image-folder", data), scaling)
    if data in keys_of("data"):
        return _prepared(load(data), scaling)
    known = ", ".join(keys_of("data"))
    raise DataError(f"--data {data}: no file, folder or module:function; known data: {known}")


def _prepared(raw: xr.Dataset, scaling: str) -> dict[str, SampleSet]:
    splits = prepare(raw, {"classes": "all", "scaling": scaling}, None, torch.float32)
    return {"train": SampleSet.of(splits.train), "test": SampleSet.of(splits.test)}


def _from_function(name: str, study: str) -> dict[str, SampleSet]:
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
    there: dict[str, SampleSet] = {}
    for part, loader in zip(("train", "test"), several, strict=False):
        inputs, targets = collected(loader, None, None)
        y = None if targets is None else np.asarray(targets)
        there[part] = SampleSet(_as_inputs(inputs), _targets(y, f"{name}: {part}"))
    return there


def _indexed(part: Any) -> bool:
    return hasattr(part, "__getitem__") and hasattr(part, "__len__")


def _from_arrays(there: Mapping[str, Pair], where: str) -> dict[str, SampleSet]:
    return {
        part: SampleSet(_as_inputs(x), _targets(y, f"{where}: {part}"))
        for part, (x, y) in there.items()
    }


def _as_inputs(inputs: Inputs | Structure) -> Structure:
    """Inputs as networks see them: bytes, but for those of masks, are divided by 255."""
    if isinstance(inputs, dict):
        return {name: _numbers(part, name) for name, part in inputs.items()}
    if isinstance(inputs, tuple):
        return tuple(_numbers(part) for part in inputs)
    return _numbers(inputs)


def _numbers(part: np.ndarray | Tensor, name: str = "inputs") -> Tensor:
    if isinstance(part, np.ndarray):
        if part.dtype.kind not in "fiub":
            raise DataError(f"{name} are {part.dtype}; they must be numbers")
        part = torch.from_numpy(np.ascontiguousarray(part))
    return part / 255 if part.dtype == torch.uint8 and "mask" not in name else part


def _targets(y: np.ndarray | None, where: str) -> Tensor | None:
    """Real numbers, or classes, as `flatlab.measure` takes them."""
    if y is None:
        return None
    if y.dtype.kind not in "fiub":
        raise DataError(f"{where}: targets are {y.dtype}; they must be classes or numbers")
    if y.dtype.kind == "f":
        return torch.from_numpy(np.ascontiguousarray(y.reshape(len(y), -1) if y.ndim == 1 else y))
    return torch.from_numpy(y.astype(np.int64))
