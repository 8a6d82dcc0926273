"""The one notation for a number per network: a column of a table.

    mls                                    a quantity, or a hyper-parameter
    log mls, root mls                      its natural logarithm, its square root
    weight_norm[fc1], weight_norm[-1]      of a layer, by its name or its place
    sharpness_at_radius[worst-adaptive-linf, 0]     by the labels of all its dimensions, in order

A quantity per layer without a label is that of the last layer.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

Array = NDArray[np.float64]

FUNCTIONS = {"log": np.log, "root": np.sqrt}
NOTATION = re.compile(r"(?:(log|root) )?([^\[\]]+?)(?:\[([^\[\]]*)\])?")
ALONG_RUNS = ("run", "checkpoint")


class UnknownColumn(LookupError):
    """What a column names is not in a table; the message is what the table "has no" of.

    what: "" for a quantity, or the dimension whose label it is.
    name: the quantity or the label.
    known: what there is instead.
    """

    def __init__(self, what: str, name: str, known: Iterable[object]) -> None:
        super().__init__(f"has no {what} {name}" if what else f"has no {name}")
        self.what, self.name, self.known = what, name, [*map(str, known)]


@dataclass(frozen=True)
class Column:
    """A column, taken apart.

    quantity: a variable or a coordinate of the table.
    labels: of its dimensions other than run and checkpoint, in order.
    function: "log", "root" or "".
    """

    quantity: str
    labels: tuple[str, ...] = ()
    function: str = ""

    @classmethod
    def of(cls, name: str) -> "Column":
        """Read the notation."""
        if not (match := NOTATION.fullmatch(name)):
            raise ValueError(f"{name!r} is no column; one is written like 'log weight_norm[fc1]'")
        function, quantity, labels = match.groups()
        parts = labels.split(",") if labels is not None else []
        return cls(quantity, tuple(part.strip() for part in parts), function or "")

    def array(self, table: xr.Dataset) -> xr.DataArray:
        """The column in a table: (run) or (run, checkpoint). Raises `UnknownColumn`."""
        if self.quantity not in table.variables:
            raise UnknownColumn("", self.quantity, table.data_vars)
        array = table[self.quantity]
        dims = [str(dim) for dim in array.dims if dim not in ALONG_RUNS]
        labels = [*self.labels]
        if len(labels) < len(dims) and "layer" in dims:
            labels.insert(dims.index("layer"), "-1")
        if len(labels) > len(dims):
            raise UnknownColumn(f"labels in {self.quantity}", ", ".join(labels), dims)
        for place, dim in enumerate(dims):
            array = _at_label(array, dim, labels[place] if place < len(labels) else "")
        array = array.astype(float)
        if self.function:
            with np.errstate(invalid="ignore", divide="ignore"):
                array = xr.apply_ufunc(FUNCTIONS[self.function], array, keep_attrs=True)
        return array.transpose("run", ...)

    def values(self, table: xr.Dataset) -> Array:
        """The numbers: (runs), or (runs, checkpoints)."""
        values: Array = self.array(table).values
        return values


def _at_label(array: xr.DataArray, dim: str, label: str) -> xr.DataArray:
    """The part of an array with a label of a dimension or, where no label matches, at a place."""
    known = [*map(str, array[dim].values)]
    if label in known:
        return array.isel({dim: known.index(label)})
    if re.fullmatch(r"-?\d+", label) and -len(known) <= int(label) < len(known):
        return array.isel({dim: int(label)})
    raise UnknownColumn(dim, label, known)


def in_words(selection: Mapping[str, Any]) -> str:
    """Hyper-parameters as they are called in evidence: "lr 0.1, batch size 20"."""

    def told(value: Any) -> str:
        if isinstance(value, list | tuple):
            return " or ".join(map(told, value))
        return value if isinstance(value, str) else f"{value:g}"

    return ", ".join(f"{key.replace('_', ' ')} {told(value)}" for key, value in selection.items())
