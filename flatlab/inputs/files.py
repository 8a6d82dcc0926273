"""Samples for networks that were trained elsewhere: from files, folders and functions."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from flatlab.core.registry import keys_of
from flatlab.core.store import load_dataset
from flatlab.core.user_code import called, function_of
from flatlab.data._arrays import ENDINGS, is_arrays, named_arrays, parts, parts_of
from flatlab.data._dataset import DataError, load
from flatlab.data._folders import ARCHIVES
from flatlab.data._pictures import pictures
from flatlab.data._tensors import _moments, prepare
from flatlab.inputs.adapted import by_name, in_form
from flatlab.inputs.batches import collected, tensor_of
from flatlab.measuring.quantity import SampleSet

TABLE = ".zarr.zip"
"""How the file of a data set ends that the workflow has prepared."""
FORMS = "arrays by name, (x, y), (x, y, x_test, y_test), or one or two loaders"
UNIT = "unit"
"""The scaling that is meant where none is named: bytes are divided by 255."""


def parts_of_data(
    data: str, scaling: str = UNIT, study: str = "", resize: int | None = None
) -> tuple[dict[str, SampleSet], str]:
    """The training samples, and the test samples where there are some; and how they are scaled.

    data: a file of arrays, a folder of images, a data set's key or its file in the workflow, or
        `module:function`, which returns arrays by name, two or four arrays, or loaders.
    scaling: of bytes, by the training samples; "" is returned where inputs are no bytes, but as
        networks see them.
    study: the key of the one whose module it is.
    resize: pixels to which the shorter side of images in a folder is resized, the middle cut out;
        None: as they are.

    Raises `DataError` or `MeasureError`.
    """
    path = Path(data)
    place = path.is_dir() or data.lower().endswith(ARCHIVES)
    if resize and not place:
        raise DataError(
            f"--data {data}: --resize is of images in a folder or an archive; other samples are "
            "taken as they are"
        )
    if place:
        return _scaled(pictures(path, resize), data, scaling)
    if is_arrays(path):
        return _scaled(parts(path), data, scaling)
    if data.endswith(TABLE) or data in keys_of("data"):
        raw = load_dataset(path) if data.endswith(TABLE) else load(data)
        scaling = "none" if "train_targets" in raw else scaling
        splits = prepare(raw, {"classes": "all", "scaling": scaling}, None, torch.float32)
        there = {"train": SampleSet.of(splits.train), "test": SampleSet.of(splits.test)}
        return there, scaling.replace("none", "")
    if ":" in data and not path.exists():
        return _scaled(_from_function(data, study), data, scaling)
    known = ", ".join(keys_of("data"))
    raise DataError(
        f"--data {data}: no file {', '.join(ENDINGS)}, no folder or archive of images, no "
        f"module:function; known data: {known}"
    )


def _from_function(name: str, study: str) -> dict[str, Any]:
    """The inputs and targets of each part that a function of the user's returns."""
    result = called(function_of(name, "--data", study), "--data", name, study)
    several = result if isinstance(result, tuple | list) else (result,)
    arrays = all(isinstance(part, Tensor | np.ndarray) for part in several)
    if isinstance(result, Mapping) or (arrays and len(several) in (2, 4)):
        return parts_of(named_arrays(result), name)
    if len(several) > 2 or not all(isinstance(part, Iterable | Dataset) for part in several):
        raise DataError(f"--data {name} returned {type(result).__name__}; it must return {FORMS}")
    loaders = zip(("train", "test"), several, strict=False)
    return {part: collected(loader, None, None) for part, loader in loaders}


def _scaled(there: Mapping[str, Any], where: str, scaling: str) -> tuple[dict[str, SampleSet], str]:
    """Samples as networks see them, and the scaling that was applied."""
    moments = {
        name: (0.0, 1.0) if scaling == "none" else _moments(np.asarray(part), scaling, 255.0)
        for name, part in by_name(there["train"][0]).items()
        if str(part.dtype).endswith("uint8") and "mask" not in str(name)
    }
    if not moments and scaling != UNIT:
        raise DataError(
            f"--scaling {scaling} is of bytes; the inputs of {where} are taken as given"
        )
    found = {}
    for part, (inputs, targets) in there.items():
        seen = {name: _seen(x, name, moments.get(name)) for name, x in by_name(inputs).items()}
        y = None if targets is None else tensor_of(targets, f"{where}: {part}: targets")
        found[part] = SampleSet(in_form(inputs, seen), y)
    return found, scaling if moments else ""


def _seen(part: Any, name: Any, moments: tuple[Any, Any] | None) -> Tensor:
    """An input as a network sees it.  moments: what is subtracted, and what it is divided by."""
    tensor = tensor_of(part, f"input {name!r}" if isinstance(name, str) else "inputs")
    if tensor.is_complex():
        raise DataError(f"inputs are {tensor.dtype}; pass real and imaginary parts as numbers")
    if moments is None:
        return tensor
    shift, spread = (torch.as_tensor(each, dtype=torch.float32) for each in moments)
    return (tensor - shift) / spread
