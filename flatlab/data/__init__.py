"""Data sets: one file each with `load(folder) -> xarray.Dataset`, as published; without torch.

A data file holds `train_inputs`, `test_inputs` (samples, ...; unsigned bytes as published) and
`train_labels`, `test_labels` (samples), with the attributes `maximum` (the value that means 1),
`classes` (names), `title`, `source` and `licence`.

One of regression has inputs that are numbers as they are, and `train_targets`, `test_targets`
(samples, outputs) in the place of labels; it has neither `maximum` nor `classes`.

The literals SHAPE (of one input: features, or channels, height and width) and OUTPUTS (the number
of classes, or of numbers in a target) let planning predict the sizes of networks and files.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from flatlab.plan import module_of


class DataError(RuntimeError):
    """Data that cannot be had or used; the message names it and the remedy."""


def load(name: str, folder: str | None = None) -> xr.Dataset:
    """A data set as published.

    folder: where downloads lie or are put; None: $FLATLAB_DATA, else `data` in this directory.
    """
    return importlib.import_module(module_of("data", name)).load(folder_of(folder))


def folder_of(folder: str | None) -> Path:
    """Where data lie: as for `load`."""
    return Path(folder or os.environ.get("FLATLAB_DATA") or "data")


def dataset(
    train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray], **about: Any
) -> xr.Dataset:
    """Inputs and labels of both splits in the form that every data file has."""
    variables = {}
    for split, (inputs, labels) in (("train", train), ("test", test)):
        axes = [f"axis{number}" for number in range(1, inputs.ndim)]
        variables[f"{split}_inputs"] = ((f"{split}_sample", *axes), inputs.astype(np.uint8))
        variables[f"{split}_labels"] = ((f"{split}_sample",), labels.astype(np.int64))
    return xr.Dataset(variables, attrs=about)


def regression(
    train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray], **about: Any
) -> xr.Dataset:
    """Inputs (samples, features) and real targets (samples, outputs) of both splits.

    A target that nobody knows is NaN.
    """
    variables = {}
    for split, arrays in (("train", train), ("test", test)):
        for part, values in zip(("inputs", "targets"), arrays, strict=True):
            dims = f"{split}_sample", part.removesuffix("s")
            variables[f"{split}_{part}"] = (dims, values.astype(np.float64))
    return xr.Dataset(variables, attrs=about)
