"""Selections: the part of a table that a figure or a claim uses."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

END = 0.05
"""The share of its iterations that is the end of a run's training."""

INTERPOLATES = 1e-2
"""The training loss below which a network interpolates; assumption: the papers name no value."""

UNCHANGED = "none"
"""The weights as they were trained, in the dimension `transformation`."""


def end_of_training(
    table: xr.Dataset, samples: str = "train", transformation: str = UNCHANGED
) -> xr.Dataset:
    """The runs that did not diverge, at the end of training: for figures of trained networks.

    The end is the mean over the checkpoints in the last 5 % of a run's iterations. Where runs have
    different numbers of these, because only some were kept densely, it is the last checkpoint of
    every run, so that all runs are treated alike.

    transformation: of the weights before they were measured, which is done at the last checkpoint.
    """
    chosen = of_samples(through_training(table, False, transformation), samples)
    has_value = has_values(chosen)
    last = has_value["checkpoint"].where(has_value).max("checkpoint")
    at_last = has_value & (has_value["checkpoint"] == last)
    late = at_last | has_value & (has_value["checkpoint"] > (1 - END) * last)
    alike = len(np.unique(late.sum("checkpoint"))) <= 1
    return chosen.where(late if alike else at_last).mean("checkpoint", keep_attrs=True)


def at_first_fit(table: xr.Dataset, samples: str = "train") -> xr.Dataset:
    """The runs that did not diverge, when their training error first was small: `fitted`.

    NaN for runs of which that is not known. For grids with `checkpoints.fitted`.
    """
    chosen = of_samples(through_training(table, followed=False), samples)
    return chosen.where(chosen["checkpoint"] == chosen["fitted"]).max("checkpoint", keep_attrs=True)


def through_training(
    table: xr.Dataset, followed: bool = True, transformation: str = UNCHANGED
) -> xr.Dataset:
    """The runs that did not diverge, at all checkpoints: for figures of training curves.

    followed: leave out runs that were measured once alone, at the end, if others were not.
    transformation: of the weights; quantities that none is measured after have one value for all.
    """
    chosen = table.sel(run=~table["diverged"].values)
    if followed:
        chosen = with_trajectories(chosen)
    if transformation != UNCHANGED or "transformation" in table.dims:
        chosen = chosen.sel(transformation=transformation, drop=True)
    return chosen


def with_trajectories(table: xr.Dataset) -> xr.Dataset:
    """The runs that were measured more than once; all runs, if none was."""
    often = has_values(table).sum("checkpoint").values > 1
    return table.sel(run=often) if often.any() else table


def of_samples(table: xr.Dataset, samples: str) -> xr.Dataset:
    """What was measured on a sample set. Losses and accuracies alone are measured on none."""
    return table.sel(samples=samples) if "samples" in table.dims else table


def has_values(table: xr.Dataset) -> xr.DataArray:
    """Whether a run has any value at a checkpoint: (run, checkpoint)."""
    both = ("run", "checkpoint")
    parts = [
        each.notnull().any([dim for dim in each.dims if dim not in both]).transpose(*both)
        for each in (table.variables[name] for name in table.data_vars)
        if {*both} <= {*each.dims}
    ]
    found = functools.reduce(operator.or_, parts)
    return table.assign_coords(found=found)["found"].reset_coords(drop=True)


def interpolation_begins(train_loss: xr.DataArray) -> float:
    """The first checkpoint at which the mean training loss over the runs is below 1e-2.

    train_loss: (run, checkpoint).  NaN if that never happens.
    """
    below = train_loss["checkpoint"].values[(train_loss.mean("run") < INTERPOLATES).values]
    return float(below[0]) if len(below) else float("nan")


def one_per_run(table: xr.Dataset) -> list[str]:
    """The quantities of a selection that have one value for each run, or for each of its layers."""
    return [
        str(name) for name, array in table.data_vars.items() if {*array.dims} <= {"run", "layer"}
    ]


def counts(table: xr.Dataset) -> dict[str, int]:
    """The numbers of runs that did not diverge, and that did; of those that never fitted, if known.

    The latter are among those that did not diverge.
    """
    diverged = int(table["diverged"].sum())
    numbers = {"runs": table.sizes["run"] - diverged, "diverged": diverged}
    if "fitted" in table.coords:
        numbers["never_fitted"] = int((table["fitted"].isnull() & ~table["diverged"]).sum())
    return numbers


def extent(about: Mapping[str, Any], runs: int, diverged: int, never_fitted: int = 0) -> str:
    """The number and kind of networks in a grid's table, and the number left out, in words."""
    slow = about.get("not_converged", 0)
    parts = {
        "left out (diverged or did not fit)": diverged - slow,
        "left out (did not converge)": slow,
        "without weights at a first small training error": never_fitted,
        "more not trained": about["left_out"],
    }
    some = f"{about['samples']} samples of " if about.get("samples") else ""
    words = f"{runs} {about['network']} networks on {some}{about['data']}, {about['length']} each"
    return "; ".join([words, *(f"{count} {what}" for what, count in parts.items() if count)])
