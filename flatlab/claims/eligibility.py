"""What a verdict may rest on: the rules, in one place. What does not meet them is `not run`.

- A mean over seeds, and a difference of two, needs 5 networks of each setting.
- A correlation over networks needs 10 networks with two distinct combinations of hyper-parameters;
  values that are drawn for each run count. A rank correlation needs 25: the jackknife of fewer
  breaks down near perfect order.
- A claim about interpolating networks is judged on those whose training loss is below 1e-2.
- A correlation that is undefined in more than 1 % of the samples that could be drawn from the same
  networks, because one of its quantities hardly varies, is `undecided`.
- A trend needs 3 checkpoints.
"""

import numpy as np
import xarray as xr

from flatlab.stats import Estimate, undefined
from flatlab.tables.selection import INTERPOLATES

FEWEST_FOR_MEAN = 5
FEWEST_FOR_CORRELATION = 10
FEWEST_FOR_RANKS = 25
FEWEST_COMBINATIONS = 2
FEWEST_CHECKPOINTS = 3
UNDEFINED_AT_MOST = 0.01

DRAWN = ("lr",)
"""Hyper-parameters that a grid may draw anew for each run."""


class NotThere(Exception):
    """What a claim is about was not computed, or is not eligible; the message says why."""


def enough(count: int, of: object, what: str = "networks", because: str = "") -> None:
    """Raise `NotThere` if `of` has fewer of `what` than a mean needs.  because: why, if known."""
    if count < FEWEST_FOR_MEAN:
        why = f" ({because})" if because else ""
        raise NotThere(f"{of} has {count} {what}{why}, a mean needs {FEWEST_FOR_MEAN}")


def enough_ranked(tau: Estimate) -> Estimate:
    """A rank correlation, or why it is not eligible."""
    if tau.reason or tau.n >= FEWEST_FOR_RANKS:
        return tau
    return undefined(tau.name, f"{tau.name}: {tau.n} networks, it needs {FEWEST_FOR_RANKS}")


def check_correlated(table: xr.Dataset, chosen: xr.Dataset, interpolating: bool) -> None:
    """Raise `NotThere` if the networks of a table that are chosen are too few, or too much alike.

    interpolating: whether the choice left out those that do not interpolate.
    """
    runs, combinations = chosen.sizes["run"], len(combinations_of(chosen))
    if runs >= FEWEST_FOR_CORRELATION and combinations >= FEWEST_COMBINATIONS:
        return
    that = "that interpolate" if interpolating else "that did not diverge"
    settings = f"{combinations} combination{'s' * (combinations != 1)} of hyper-parameters"
    found = f"{runs} networks {that}, with {settings}" if runs else f"no networks {that}"
    needs = f"a correlation needs {FEWEST_FOR_CORRELATION} with {FEWEST_COMBINATIONS}"
    why = missing(table, interpolating)
    raise NotThere(f"{table.attrs['experiment']} has {found}; {needs}{f'; {why}' if why else ''}")


def combinations_of(chosen: xr.Dataset) -> set[tuple[object, ...]]:
    """The distinct combinations of hyper-parameters of some runs."""
    names = dict.fromkeys([*chosen.attrs["hyperparameters"], *DRAWN])
    columns = [chosen[name].values.tolist() for name in names if name in chosen.coords]
    return set(zip(*columns, strict=True))


def missing(table: xr.Dataset, interpolating: bool = False) -> str:
    """Why networks of an experiment are not among those of its table that are used, in words."""
    left_out, diverged = table.attrs.get("left_out", 0), table["diverged"].values
    slow = table.attrs.get("not_converged", 0)
    counts = {"are not trained": left_out, "diverged": int(diverged.sum()) - slow}
    counts["did not converge"] = slow
    if interpolating:
        counts["do not interpolate"] = int((~interpolates(table).values & ~diverged).sum())
    found = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"of {table.sizes['run'] + left_out} networks {found}" if found else ""


def interpolates(table: xr.Dataset) -> xr.DataArray:
    """Whether the training loss of each run is below 1e-2 when it is last measured: (run)."""
    loss = table["train_loss"]
    if "checkpoint" in loss.dims:
        last = loss["checkpoint"].where(loss.notnull()).max("checkpoint")
        loss = loss.where(loss["checkpoint"] == last).max("checkpoint")
    return (loss < INTERPOLATES).reset_coords(drop=True)


def doubt(share: float) -> str:
    """Why no verdict may rest on a correlation; "" if one may.

    share: the probability that it is undefined in a sample drawn from the same networks.
    """
    if share <= UNDEFINED_AT_MOST:
        return ""
    return (
        f"the correlation rests on a few networks: in {share:.0%} of samples drawn from them one "
        f"of its quantities does not vary"
    )


def finite_rows(values: np.ndarray) -> np.ndarray:
    """The networks for which all values are finite: (networks, ...)."""
    return values[np.isfinite(values.reshape(len(values), -1)).all(axis=1)]
