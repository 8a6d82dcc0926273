"""When a network is looked at: the end of its training, its first fit, an iteration, its extremes.

A time is "end" (the mean over the last 5 % of the iterations), "first fit" (when the training error
first was small, for grids with `checkpoints.fitted`), "start" (iteration 0), an iteration, "most"
(the largest value in training), "growth" (that over the value at the first checkpoint) or
"increase" (that less it).
"""

from collections.abc import Callable

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from flatlab.lab.tables.columns import UnknownColumn
from flatlab.lab.tables.selection import (
    UNCHANGED,
    at_first_fit,
    end_of_training,
    of_samples,
    through_training,
)

Time = str | int

EXTREMES: dict[str, Callable[[xr.Dataset, xr.Dataset], xr.Dataset]] = {
    "most": lambda most, first: most,
    "growth": lambda most, first: most / first,
    "increase": lambda most, first: most - first,
}


def at_time(
    table: xr.Dataset, time: Time, samples: str = "train", transformation: str = UNCHANGED
) -> xr.Dataset:
    """The runs of a table that count, without checkpoints and sample sets.

    table: of a grid, or of a zoo, whose networks have no checkpoints.
    time: as above.
    samples: the sample set.
    transformation: of the weights before they were measured.

    Raises `UnknownColumn` for a time or a sample set that the table does not have.
    """
    if "checkpoint" not in table.dims:
        return of_samples(table.isel(run=np.flatnonzero(counted(table))), "train")
    if "samples" in table.dims and samples not in table["samples"].values:
        raise UnknownColumn("samples", samples, table["samples"].values)
    if time == "end":
        return end_of_training(table, samples, transformation)
    if time == "first fit":
        if "fitted" not in table.coords:
            raise UnknownColumn("", "fitted", table.coords)
        return at_first_fit(table, samples)
    curves = of_samples(through_training(table, None, False, transformation), samples)
    if time in EXTREMES:
        most, first = curves.max("checkpoint"), curves.isel(checkpoint=0)
        return EXTREMES[str(time)](most, first)
    step = 0 if time == "start" else time
    if step not in curves["checkpoint"].values:
        raise UnknownColumn("checkpoint at iteration", str(step), curves["checkpoint"].values)
    return curves.sel(checkpoint=step)


def counted(table: xr.Dataset) -> NDArray[np.bool_]:
    """Whether each run counts: of a grid, did not diverge; of a zoo, could be measured: (run)."""
    if "diverged" in table.coords:
        return ~table["diverged"].values
    if "finite" in table:
        measured: NDArray[np.bool_] = (table["finite"] == 1).values & (table["dropped"] == 0).values
        return measured
    return np.ones(table.sizes["run"], dtype=bool)
