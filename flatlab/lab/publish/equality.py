"""Whether two result files are equal: every array byte for byte, apart from names that changed."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flatlab.core.store import load_dataset, load_weights


class Content(NamedTuple):
    """All that makes an array: names of dimensions, type, shape, and bytes or, of text, a list."""

    dims: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    values: Any


def contents(path: Path) -> tuple[dict[str, Content], dict[str, Any]]:
    """The arrays of a result file by name, and of weights what describes them.

    Attributes of datasets are text for readers (names, units, sources) and are left out.
    """
    if path.suffix == ".safetensors":
        arrays, about = load_weights(path)
        return {name: _content((), array) for name, array in arrays.items()}, about
    variables = load_dataset(path).variables
    return {str(name): _content(v.dims, v.to_numpy()) for name, v in variables.items()}, {}


def _content(dims: Iterable[object], array: np.ndarray) -> Content:
    values = array.tolist() if array.dtype == object else array.tobytes()
    return Content(tuple(map(str, dims)), array.dtype.str, array.shape, values)


def differences(old: Path, new: Path, renamed: Mapping[str, str] = {}) -> Iterator[str]:
    """How a file differs from an older one, in words; nothing if they are equal.

    old: the older file.
    new: the other one.
    renamed: new names of quantities and dimensions by old ones; "" for those that are gone.
    """
    (before, about), (after, about_now) = contents(old), contents(new)
    kept = {
        now: each._replace(dims=tuple(renamed.get(dim, dim) for dim in each.dims))
        for name, each in before.items()
        if (now := renamed.get(name, name))
    }
    if lacking := sorted(kept.keys() - after.keys()):
        yield f"lacks {', '.join(lacking)}"
    if further := sorted(after.keys() - kept.keys()):
        yield f"has {', '.join(further)} besides"
    if unequal := sorted(name for name in kept.keys() & after.keys() if kept[name] != after[name]):
        yield f"other values of {', '.join(unequal)}"
    if json.dumps(about, sort_keys=True) != json.dumps(about_now, sort_keys=True):
        yield "another description"
