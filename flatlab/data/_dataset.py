"""Data sets as xarray datasets, and where their files are."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from flatlab.core.registry import imported

Arrays = tuple[np.ndarray, np.ndarray]


class DataError(RuntimeError):
    """Data that cannot be obtained or used; the message names them and the remedy."""


def load(name: str, folder: str | None = None) -> xr.Dataset:
    """A data set as published.

    name: its key.
    folder: where downloads are or go; None: $FLATLAB_DATA, else `data` in this directory.
    """
    return imported("data", name).load(folder_of(folder))


def folder_of(folder: str | None) -> Path:
    """The data folder, as in `load`."""
    return Path(folder or os.environ.get("FLATLAB_DATA") or "data")


def dataset(
    train: Arrays, test: Arrays, further: Mapping[str, Arrays] | None = None, **attributes: Any
) -> xr.Dataset:
    """A data set of classes.

    train, test: inputs (samples, ...), unsigned bytes, and labels (samples).
    further: more test sets, whose inputs are shifted, by name.
    attributes: `maximum`, `classes`, `title`, `source` and `licence`.
    """
    variables = {}
    for split, (inputs, labels) in {"train": train, "test": test, **(further or {})}.items():
        axes = [f"axis{number}" for number in range(1, inputs.ndim)]
        variables[f"{split}_inputs"] = ((f"{split}_sample", *axes), inputs.astype(np.uint8))
        variables[f"{split}_labels"] = ((f"{split}_sample",), labels.astype(np.int64))
    return xr.Dataset(variables, attrs=attributes)


def regression(train: Arrays, test: Arrays, **attributes: Any) -> xr.Dataset:
    """A data set for regression.

    train, test: inputs (samples, features) and real targets (samples, outputs), NaN where unknown.
    attributes: `title`, `source` and `licence`.
    """
    variables = {}
    for split, (inputs, targets) in (("train", train), ("test", test)):
        variables[f"{split}_inputs"] = ((f"{split}_sample", "input"), inputs.astype(np.float64))
        variables[f"{split}_targets"] = ((f"{split}_sample", "target"), targets.astype(np.float64))
    return xr.Dataset(variables, attrs=attributes)
