"""Data sets: one file each with `load(folder) -> xarray.Dataset`, as published; without torch.

A data set has `train_inputs`, `test_inputs` (samples, ...; unsigned bytes as published) and
`train_labels`, `test_labels` (samples), and the attributes `maximum` (the input value that means
1), `classes` (names), `title`, `source` and `licence`.

A data set for regression has real inputs, and `train_targets`, `test_targets` (samples, outputs)
instead of labels; it has neither `maximum` nor `classes`.

The literals SHAPE (of one input: features, or channels, height and width) and OUTPUTS (the number
of classes, or of numbers in a target) let planning predict the sizes of networks and files. Where
the images are those of another data set, but encoded with losses, REENCODED has its key and the
encoding: such a data set reduces the evidence on a paper, and does not stand in for the paper's.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from flatlab.plan import module_of
from flatlab.plan.registry import imported

Arrays = tuple[np.ndarray, np.ndarray]


class DataError(RuntimeError):
    """Data that cannot be obtained or used; the message names them and the remedy."""


def load(name: str, folder: str | None = None) -> xr.Dataset:
    """A data set as published.

    folder: where downloads are or go; None: $FLATLAB_DATA, else `data` in this directory.
    """
    return imported("data", name).load(folder_of(folder))


def folder_of(folder: str | None) -> Path:
    """The data folder, as in `load`."""
    return Path(folder or os.environ.get("FLATLAB_DATA") or "data")


def dataset(
    train: Arrays, test: Arrays, further: Mapping[str, Arrays] | None = None, **attributes: Any
) -> xr.Dataset:
    """A data set of inputs (samples, ...) and labels (samples) for training and testing.

    further: more test sets, whose inputs are shifted, by name.
    """
    variables = {}
    for split, (inputs, labels) in {"train": train, "test": test, **(further or {})}.items():
        axes = [f"axis{number}" for number in range(1, inputs.ndim)]
        variables[f"{split}_inputs"] = ((f"{split}_sample", *axes), inputs.astype(np.uint8))
        variables[f"{split}_labels"] = ((f"{split}_sample",), labels.astype(np.int64))
    return xr.Dataset(variables, attrs=attributes)


def regression(train: Arrays, test: Arrays, **attributes: Any) -> xr.Dataset:
    """A data set of inputs (samples, features) and real targets (samples, outputs).

    Unknown targets are NaN.
    """
    variables = {}
    for split, (inputs, targets) in (("train", train), ("test", test)):
        variables[f"{split}_inputs"] = ((f"{split}_sample", "input"), inputs.astype(np.float64))
        variables[f"{split}_targets"] = ((f"{split}_sample", "target"), targets.astype(np.float64))
    return xr.Dataset(variables, attrs=attributes)
