"""The tables that the claims of a figure are judged by, and what is read from them.

What was not computed raises `NotThere`, and a claim about it is `not run` and says why. It is
caught in `attempt` and nowhere else, as close to the missing number as an estimate: if one part of
a claim is missing, another part may still decide it.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from flatlab.stats import Correlations, Estimate, undefined
from flatlab.stats.bootstrap import Array
from flatlab.tables import selection

T = TypeVar("T")
Pair = tuple[str, str]
Setting = Mapping[str, Any]
"""Hyper-parameters and their values, {"lr": 0.1, "batch_size": 20}: a line in a figure."""

FEWEST_RUNS = 2
"""The fewest runs that have an interval."""


class NotThere(Exception):
    """Something that a claim is about was not computed; the message says what."""


def attempt(make: Callable[[], T], otherwise: Callable[[str], T]) -> T:
    """The result of `make` or, if something was not computed, of `otherwise(reason)`."""
    try:
        return make()
    except NotThere as missing:
        return otherwise(str(missing))


def estimates(names: Iterable[str], make: Callable[[], list[Estimate]]) -> list[Estimate]:
    """The estimates that `make` returns, or undefined ones of these names that say why."""
    return attempt(make, lambda reason: [undefined(name, reason) for name in names])


def estimate(name: str, make: Callable[[], Estimate]) -> Estimate:
    """The estimate that `make` returns, or an undefined one that says why."""
    return estimates([name], lambda: [make()])[0]


def enough(count: int, of: object, what: str = "runs") -> None:
    """Raise `NotThere` if `of` has fewer of `what` than an interval needs."""
    if count < FEWEST_RUNS:
        raise NotThere(f"{of} has {count} {what}, an interval needs {FEWEST_RUNS}")


class Evidence:
    """Tables by the keys of their experiments; `NotThere` for whatever they do not have."""

    def __init__(self, tables: Mapping[str, xr.Dataset]) -> None:
        self.tables = tables

    def table(self, key: str) -> xr.Dataset:
        """The table of an experiment."""
        if key not in self.tables:
            raise NotThere(f"{key} is not among the tables")
        return self.tables[key]

    def runs(
        self, grid: str, where: Setting | None = None, seeds: Iterable[int] | None = None
    ) -> xr.Dataset:
        """The runs of a grid that did not diverge: of one setting and some seeds, or all."""
        return selection.through_training(self.table(grid), where, seeds)

    def values(self, grid: str, name: str) -> Array:
        """A quantity on training samples, for every run that did not diverge, at all checkpoints.

        Shape (runs, checkpoints) or, for a quantity per layer, (runs, checkpoints, layers).
        """
        return series(grid, self.runs(grid), name)

    @functools.cache  # noqa: B019 - lives as long as the verdicts of one figure
    def correlations(self, grid: str, seeds: int | None = None) -> Correlations:
        """Correlations at the end of training, over all runs or those of the first seeds.

        The square root of each quantity is a column too, root_<name>.
        """
        chosen = selection.end_of_training(self.table(grid))
        if seeds is not None:
            chosen = selection.of_seeds(chosen, range(seeds))
        columns = selection.columns_of(chosen, selection.one_per_run(chosen))
        with np.errstate(invalid="ignore"):
            roots = {f"root_{name}": np.sqrt(values) for name, values in columns.items()}
        return Correlations(columns | roots | columns, list(chosen["setting"].values))

    def rho(self, grid: str, x: str, y: str, seeds: int | None = None) -> Estimate:
        """Pearson's correlation over the runs of a grid at the end of training."""
        return self.rhos(grid, (x, y), seeds=seeds)[0]

    def rhos(self, grid: str, *pairs: Pair, seeds: int | None = None) -> list[Estimate]:
        """Correlations to be compared, over the same runs."""

        def found() -> list[Estimate]:
            correlations = self.correlations(grid, seeds)
            for name in (name for pair in pairs for name in pair):
                if name not in correlations.names:
                    raise NotThere(f"{grid} has no {name}")
            return correlations.rhos(*pairs)

        return estimates([f"rho({x}, {y})" for x, y in pairs], found)


def series(grid: str, runs: xr.Dataset, name: str, samples: str = "train") -> Array:
    """A quantity of some runs at their checkpoints: (runs, checkpoints, ...)."""
    if name not in runs:
        raise NotThere(f"{grid} has no {name}")
    array = runs[name]
    if "samples" in array.dims:
        if samples not in runs["samples"].values:
            raise NotThere(f"{grid} has no {samples} samples")
        array = array.sel(samples=samples)
    return array.values.astype(float)
