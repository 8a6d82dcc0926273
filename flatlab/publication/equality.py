"""Whether two result files are equal: every array byte for byte, apart from names that changed."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from flatlab.store import load_dataset, load_weights

Named = Mapping[str, tuple[tuple[str, ...], np.ndarray]]
"""Arrays with the names of their dimensions, by name."""


def contents(path: Path) -> tuple[dict[str, tuple[tuple[str, ...], np.ndarray]], dict[str, Any]]:
    """The arrays of a result file, and of weights what describes them.

    Attributes of datasets are text for readers (names, units, sources) and are left out.
    """
    if path.suffix == ".safetensors":
        arrays, about = load_weights(path)
        return {name: ((), array) for name, array in arrays.items()}, about
    dataset: xr.Dataset = load_dataset(path)
    variables = {str(name): variable for name, variable in dataset.variables.items()}
    return {n: (tuple(map(str, v.dims)), v.to_numpy()) for n, v in variables.items()}, {}


def differences(old: Path, new: Path, renamed: Mapping[str, str] = {}) -> Iterator[str]:
    """How a file differs from an older one, in words; nothing if they are equal.

    old: the older file.
    new: the other one.
    renamed: new names of quantities and dimensions by old ones; "" for those that are gone.
    """
    (before, about), (after, about_now) = contents(old), contents(new)
    kept = {name: renamed.get(name, name) for name in before if renamed.get(name, name)}
    if lacking := sorted({*kept.values()} - after.keys()):
        yield f"lacks {', '.join(lacking)}"
    if further := sorted(after.keys() - {*kept.values()}):
        yield f"has {', '.join(further)} besides"
    unequal = [
        n for n, now in kept.items() if now in after and not _equal(before[n], after[now], renamed)
    ]
    if unequal:
        yield f"other values of {', '.join(sorted(unequal))}"
    if json.dumps(about, sort_keys=True) != json.dumps(about_now, sort_keys=True):
        yield "another description"


def _equal(
    old: tuple[tuple[str, ...], np.ndarray],
    new: tuple[tuple[str, ...], np.ndarray],
    renamed: Mapping[str, str],
) -> bool:
    """Whether two arrays have the same dimensions, type and bytes."""
    (dims, before), (dims_now, after) = old, new
    if tuple(renamed.get(dim, dim) for dim in dims) != dims_now or before.shape != after.shape:
        return False
    if before.dtype != after.dtype:
        return False
    if before.dtype == object:  # text
        return bool((before == after).all())
    return before.tobytes() == after.tobytes()
