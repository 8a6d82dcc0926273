"""The one notation for a number per network: a column of a table.

    mls                                    a quantity, or a hyper-parameter
    log mls, root mls                      its natural logarithm, its square root
    weight_norm[fc1], weight_norm[-1]      of a layer, by its name or its place
    sharpness_at_radius[worst-adaptive-linf, 0]     by the labels of all its dimensions, in order

A quantity per layer without a label is that of the last layer.

A network is looked at at a time: "end" (the mean over the last 5 % of the iterations), "first fit"
(when the training error first was small, for grids with `checkpoints.fitted`), "start" (iteration
0), an iteration, "most" (the largest value in training), "growth" (that over the value at the first
checkpoint) or "increase" (that less it).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from flatlab.core.schema import closest
from flatlab.lab.tables import selection
from flatlab.lab.tables.selection import UNCHANGED, of_samples

Array = NDArray[np.float64]

FUNCTIONS = {"log": np.log, "root": np.sqrt}
NOTATION = re.compile(r"(?:(log|root) )?([^\[\]]+?)(?:\[([^\[\]]*)\])?")
ALONG_RUNS = ("run", "checkpoint")
ROWS = (*ALONG_RUNS, "samples", "transformation")

Time = str | int
EXTREMES: dict[str, Callable[[xr.Dataset, xr.Dataset], xr.Dataset]] = {
    "most": lambda most, first: most,
    "growth": lambda most, first: most / first,
    "increase": lambda most, first: most - first,
}


class NotEligible(Exception):
    """What is asked for was not computed, or is not eligible; the message says why.

    hint: of a name that a table does not have, the closest one and all that it has.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


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
            raise ValueError(
                f"{name!r} is not a column; one is written like 'log weight_norm[fc1]'"
            )
        function, quantity, labels = match.groups()
        parts = labels.split(",") if labels is not None else []
        return cls(quantity, tuple(part.strip() for part in parts), function or "")

    def values(self, table: xr.Dataset) -> Array:
        """The numbers: (runs), or (runs, checkpoints). Raises `NotEligible`."""
        if self.quantity not in table.variables:
            known = [*table.data_vars, *table.attrs.get("hyperparameters", [])]
            raise _lacking(table, self.quantity, known)
        part = table.variables[self.quantity]  # an array would drag all coordinates along
        dims = [str(dim) for dim in part.dims if dim not in ALONG_RUNS]
        labels = [*self.labels]
        if len(labels) < len(dims) and "layer" in dims:
            labels.insert(dims.index("layer"), "-1")
        if len(labels) > len(dims):
            raise _lacking(table, ", ".join(labels), dims, f"labels in {self.quantity}")
        for place, dim in enumerate(dims):
            label = labels[place] if place < len(labels) else ""
            part = part.isel({dim: _place(label, dim, table)})
        values: Array = part.transpose("run", ...).values.astype(float)
        if self.function:
            with np.errstate(invalid="ignore", divide="ignore"):
                return FUNCTIONS[self.function](values)
        return values


def _lacking(table: xr.Dataset, name: str, known: Iterable[object], what: str = "") -> NotEligible:
    """That a table has no such quantity, or no such label of the dimension `what`."""
    words = (table.attrs.get("experiment", "the table"), "has no", what, name)
    return NotEligible(" ".join(filter(None, words)), closest(name, map(str, known)))


def _place(label: str, dim: str, table: xr.Dataset) -> int:
    """The place of a label in a dimension or, where no label matches, the place that it says."""
    known = [*map(str, table[dim].values)]
    if label in known:
        return known.index(label)
    if re.fullmatch(r"-?\d+", label) and -len(known) <= int(label) < len(known):
        return int(label)
    raise _lacking(table, label, known, dim)


def in_words(levels: Mapping[str, Any]) -> str:
    """Hyper-parameters as they are called in evidence: "lr 0.1, batch size 20"."""

    def told(value: Any) -> str:
        if isinstance(value, list | tuple):
            return " or ".join(map(told, value))
        return value if isinstance(value, str) else f"{value:g}"

    return ", ".join(f"{key.replace('_', ' ')} {told(value)}" for key, value in levels.items())


def at_time(
    table: xr.Dataset, time: Time, samples: str = "train", transformation: str = UNCHANGED
) -> xr.Dataset:
    """The runs of a table that count, without checkpoints and sample sets.

    table: of a grid, or of a zoo, whose networks have no checkpoints.
    time: as above.
    samples: the sample set.
    transformation: of the weights before they were measured.

    Raises `NotEligible` for a time or a sample set that the table does not have.
    """
    if "checkpoint" not in table.dims:
        return of_samples(table.isel(run=np.flatnonzero(counted(table))), "train")
    if "samples" in table.dims and samples not in table["samples"].values:
        raise _lacking(table, samples, table["samples"].values, "samples")
    if time == "end":
        return selection.end_of_training(table, samples, transformation)
    if time == "first fit":
        if "fitted" not in table.coords:
            raise _lacking(table, "fitted", table.coords)
        return selection.at_first_fit(table, samples)
    curves = of_samples(selection.through_training(table, False, transformation), samples)
    if time in EXTREMES:
        most, first = curves.max("checkpoint"), curves.isel(checkpoint=0)
        return EXTREMES[str(time)](most, first).assign_attrs(table.attrs)
    step = 0 if time == "start" else time
    if step not in curves["checkpoint"].values:
        steps = curves["checkpoint"].values
        raise _lacking(table, str(step), steps, "checkpoint at iteration")
    return curves.sel(checkpoint=step)


def counted(table: xr.Dataset) -> NDArray[np.bool_]:
    """Whether each run counts: of a grid, did not diverge; of a zoo, could be measured: (run)."""
    if "diverged" in table.coords:
        return ~table["diverged"].values
    if "finite" in table:
        measured: NDArray[np.bool_] = (table["finite"] == 1).values & (table["dropped"] == 0).values
        return measured
    return np.ones(table.sizes["run"], dtype=bool)


def tidy(table: xr.Dataset) -> pd.DataFrame:
    """The frame of a table, or of a report of one network, which has one row.

    Rows begin with what identifies them: run, setting, seed, hyper-parameters, checkpoint, sample
    set; what is measured on no sample set has the same value for all. Columns are called as they
    are here: `weight_norm[fc1]`.
    """
    down = [dim for dim in ROWS if dim in table.dims]
    columns = {}
    for name, array in table.data_vars.items():
        across = [dim for dim in array.dims if dim not in down]
        if "sample" in across:
            continue
        for place in product(*(range(array.sizes[dim]) for dim in across)):
            chosen = array.isel(dict(zip(across, place, strict=True)))
            labels = [str(array[dim].values[i]) for dim, i in zip(across, place, strict=True)]
            key = f"{name}[{', '.join(labels)}]" if labels else str(name)
            columns[key] = chosen.drop_vars([c for c in chosen.coords if c not in down])
    per_row = [name for name, each in table.coords.items() if set(each.dims) <= set(down)]
    frame = xr.Dataset(columns).assign_coords({name: table[name] for name in per_row})
    if not down:
        return pd.DataFrame({name: [array.item()] for name, array in frame.data_vars.items()})
    result = frame.to_dataframe(dim_order=down).reset_index()
    leading = ["setting", "seed", *table.attrs.get("hyperparameters", [])]
    others = sorted(map(str, {*per_row} - {*down, *leading}))
    first = [*down[:1], *(n for n in leading if n in per_row), *others, *down[1:]]
    return result[[*map(str, first), *columns]]
