"""What a verdict may rest on: the rules, in one place. What does not meet them is `not run`.

- A mean over seeds, and a difference of two, needs 5 networks of each setting.
- A correlation over networks needs 10 networks with two distinct combinations of hyper-parameters;
  values that are drawn for each run count. A rank correlation needs 25: the jackknife of fewer
  breaks down near perfect order.
- A claim about interpolating networks is judged on those whose training loss is below 1e-2.
- A claim about an eigenvalue needs 99 % of the table's eigenvalues to have converged.
- A correlation that is undefined in more than 1 % of the samples that could be drawn from the same
  networks, because one of its quantities hardly varies, is `undecided`.
- A trend needs 3 checkpoints.

What breaks a rule raises `NotEligible`. It is caught in `unless_missing` alone, as close to the
missing number as an estimate: if one part of a claim is missing, another may still decide it.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from flatlab.lab.tables.columns import Column, NotEligible
from flatlab.lab.tables.selection import INTERPOLATES
from flatlab.stats.estimate import Estimate, undefined

T = TypeVar("T")

FEWEST_FOR_MEAN = 5
FEWEST_FOR_CORRELATION = 10
FEWEST_FOR_RANKS = 25
FEWEST_COMBINATIONS = 2
FEWEST_CHECKPOINTS = 3
UNDEFINED_AT_MOST = 0.01
FEWEST_RANKED = 3
"""The fewest networks that have a rank correlation at all."""
CONVERGED = 0.99

EIGENVALUE = "_lambda_max"
"""The ending of quantities whose iteration must have converged: `<matrix>_converged`."""

DRAWN = ("lr",)
"""Hyper-parameters that a grid may draw anew for each run."""


def unless_missing(make: Callable[[], T], otherwise: Callable[[str], T]) -> T:
    """The result of `make` or, if something is not eligible, of `otherwise(reason)`."""
    try:
        return make()
    except NotEligible as missing:
        return otherwise(str(missing))


def estimates(names: Iterable[str], make: Callable[[], list[Estimate]]) -> list[Estimate]:
    """The estimates that `make` returns, or undefined ones of these names that say why."""
    return unless_missing(make, lambda reason: [undefined(name, reason) for name in names])


def estimate(name: str, make: Callable[[], Estimate]) -> Estimate:
    """The estimate that `make` returns, or an undefined one that says why."""
    return estimates([name], lambda: [make()])[0]


def too_few(subject: str, count: int, what: str, statistic: str, least: int) -> str:
    """The sentence "rates-grid has 12 networks, a rank correlation needs 25"."""
    return f"{subject} {count} {what}, {statistic} needs {least}"


def require(
    count: int,
    of: object,
    what: str = "networks",
    because: str = "",
    statistic: str = "a mean",
    least: int = FEWEST_FOR_MEAN,
) -> None:
    """Raise `NotEligible` if there are too few networks.

    count: how many there are.
    of: what has them, such as an experiment.
    what: what they are called.
    because: why there are not more, if known.
    statistic: what needs them.
    least: how many it needs.
    """
    if count < least:
        what += f" ({because})" if because else ""
        raise NotEligible(too_few(f"{of} has", count, what, statistic, least))


def require_measured(key: str, count: int) -> None:
    """Raise `NotEligible` if too few networks of a zoo were measured for a correlation."""
    require(count, key, statistic="a correlation", least=FEWEST_FOR_CORRELATION)


def require_ranked(tau: Estimate) -> Estimate:
    """A rank correlation, or why it is not eligible."""
    if tau.reason or tau.n >= FEWEST_FOR_RANKS:
        return tau
    reason = f"{tau.name}: {tau.n} networks have both"
    if tau.n >= FEWEST_RANKED:
        reason = too_few(f"{tau.name}:", tau.n, "networks", "it", FEWEST_FOR_RANKS)
    return undefined(tau.name, reason)


def require_correlated(table: xr.Dataset, networks: xr.Dataset, interpolating: bool) -> None:
    """Raise `NotEligible` if some networks of a table are too few, or too much alike.

    table: all networks.
    networks: those that are correlated.
    interpolating: whether those that do not interpolate are left out of them.
    """
    runs, names = networks.sizes["run"], [*networks.attrs["hyperparameters"], *DRAWN]
    levels = [networks[name].values.tolist() for name in names if name in networks.coords]
    combinations = len(set(zip(*levels, strict=True)))
    if runs >= FEWEST_FOR_CORRELATION and combinations >= FEWEST_COMBINATIONS:
        return
    that = "that interpolate" if interpolating else "that did not diverge"
    settings = f"{combinations} combination{'s' * (combinations != 1)} of hyper-parameters"
    what = f"{runs} networks {that}, with {settings}" if runs else f"no networks {that}"
    needs = f"a correlation needs {FEWEST_FOR_CORRELATION} with {FEWEST_COMBINATIONS}"
    why = shortfall(table, interpolating)
    reason = f"{table.attrs['experiment']} has {what}; {needs}{f'; {why}' if why else ''}"
    raise NotEligible(reason)


def require_converged(key: str, table: xr.Dataset, quantity: str) -> None:
    """Raise `NotEligible` if a quantity is an eigenvalue and too few of a table have converged."""
    matrix = quantity.removesuffix(EIGENVALUE)
    if matrix == quantity or f"{matrix}_converged" not in table:
        return
    converged = table[f"{matrix}_converged"].sel(run=~table["diverged"].values)
    if "samples" in converged.dims:
        converged = converged.sel(samples="train")
    share = float(np.nanmean(converged.values.astype(float)))
    if share < CONVERGED:
        sentence = f"{share:.1%} of the eigenvalues ({matrix}) of {key} converged"
        raise NotEligible(f"{sentence}, a claim about sharpness needs {CONVERGED:.0%}")


def shortfall(table: xr.Dataset, interpolating: bool = False) -> str:
    """Why networks of an experiment are not among those of its table that are used, in words."""
    left_out, diverged = table.attrs.get("left_out", 0), table["diverged"].values
    slow = table.attrs.get("not_converged", 0)
    counts = {"are not trained": left_out, "diverged": int(diverged.sum()) - slow}
    counts["did not converge"] = slow
    if interpolating:
        counts["do not interpolate"] = int((~interpolates(table) & ~diverged).sum())
    parts = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"of {table.sizes['run'] + left_out} networks {parts}" if parts else ""


def interpolates(table: xr.Dataset) -> NDArray[np.bool_]:
    """Whether the training loss of each run is below 1e-2 when it is last measured: (run)."""
    loss = Column.of("train_loss").values(table)
    if loss.ndim == 2:
        steps = np.where(np.isnan(loss), -np.inf, table["checkpoint"].values)
        loss = np.take_along_axis(loss, steps.argmax(axis=1)[:, None], axis=1)[:, 0]
    return loss < INTERPOLATES


def instability(share: float) -> str:
    """Why no verdict may rest on a correlation; "" if one may.

    share: the probability that it is undefined in a sample drawn from the same networks.
    """
    if share <= UNDEFINED_AT_MOST:
        return ""
    return (
        f"the correlation rests on a few networks: in {share:.0%} of samples drawn from them one "
        f"of its quantities does not vary"
    )
