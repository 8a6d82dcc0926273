"""Selections: the part of a table that a figure or a claim uses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr


def end_of_training(table: xr.Dataset, samples: str = "train") -> xr.Dataset:
    """The selection of figures that show trained networks: runs that did not diverge, at the end.

    The end is the mean over the last 5 % of the checkpoints, at least one. Quantities per layer
    become one of the last layer, except where they are asked for by layer.
    """
    last = max(1, round(0.05 * table.sizes["checkpoint"]))
    chosen = table.sel(run=~table["diverged"].values, samples=samples)
    return chosen.isel(checkpoint=slice(-last, None)).mean("checkpoint", keep_attrs=True)


def last_layer(table: xr.Dataset, name: str) -> xr.DataArray:
    """A quantity per layer, of the last linear layer."""
    return table[name].isel(layer=-1)


def one_per_run(table: xr.Dataset) -> list[str]:
    """The quantities of a selection that are one number for each run, or for each of its layers."""
    return [
        str(name) for name, array in table.data_vars.items() if {*array.dims} <= {"run", "layer"}
    ]


def columns_of(table: xr.Dataset, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Columns by name; quantities per layer are those of the last layer."""
    return {
        name: (last_layer(table, name) if "layer" in table[name].dims else table[name]).values
        for name in names
    }


def hyperparameters(table: xr.Dataset) -> list[str]:
    """The coordinates in which the settings of a table differ, in the order of the grid's file."""
    return list(table.attrs["hyperparameters"])
