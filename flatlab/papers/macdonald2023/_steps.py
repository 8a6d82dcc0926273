"""How much larger a curve is at each value of a hyper-parameter than at the one before."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import xarray as xr

from flatlab.claims import Evidence
from flatlab.claims.eligibility import NotThere, enough
from flatlab.claims.evidence import Setting, estimates, series
from flatlab.stats import Estimate
from flatlab.stats.estimate import Array
from flatlab.stats.trends import difference
from flatlab.tables.selection import first, through_training, until_stop

Statistic = Callable[[Array], Array]

CONVERGED = 0.99
"""The share of eigenvalues whose iteration must have converged for a claim about sharpness."""


def growth(curves: Array) -> Array:
    """The largest value in training over the value at the start: (runs, checkpoints) -> (runs)."""
    return curves.max(axis=1) / curves[:, 0]


def increase(curves: Array) -> Array:
    """The largest value in training less the value at the start: (runs, checkpoints) -> (runs)."""
    return curves.max(axis=1) - curves[:, 0]


def highest(curves: Array) -> Array:
    """The largest value in training: (runs, checkpoints, ...) -> (runs). Missing ones are none."""
    return np.fmax.reduce(curves.reshape(len(curves), -1), axis=1)


@dataclass(frozen=True)
class Steps:
    """A quantity along the values of a hyper-parameter.

    where: what the runs have in common, called `context`.  key: the hyper-parameter, called `word`,
    with its values in order.  label: what the quantity is called.  until: as in `until_stop`, if
    curves are cut.  share: of the iterations, the first ones.
    """

    grid: str
    where: Setting
    context: str
    key: str
    word: str
    values: tuple[float, ...]
    quantity: str
    label: str
    until: Setting = field(default_factory=dict)
    share: float = 1.0

    def runs(self, e: Evidence, value: float) -> xr.Dataset:
        """The runs at one value."""
        table = e.table(self.grid)
        if self.until:
            table = until_stop(table, self.until)
        where = {**self.where, self.key: value}
        runs = through_training(first(table, self.share), where, followed=False)
        there = f"networks of {self.context} at {self.word} {value:g}"
        enough(runs.sizes["run"], self.grid, there)
        return runs

    def curves(self, e: Evidence, value: float, last: float = 1.0) -> Array:
        """The quantity at one value: (runs, checkpoints, ...).  last: share of the iterations."""
        runs = self.runs(e, value)
        iterations = runs["checkpoint"].values
        late = runs.sel(checkpoint=iterations >= (1 - last) * iterations.max())
        return series(self.grid, late, self.quantity)

    def of(self, e: Evidence, what: str, statistic: Statistic) -> list[Estimate]:
        """The steps of a statistic of its curves, which is called `what` of the quantity."""
        at = [f"{what} {self.label}({self.word} {value:g})" for value in self.values]
        names = [f"{larger} - {smaller}; {self.context}" for smaller, larger in pairwise(at)]

        def found() -> list[Estimate]:
            values = [statistic(self.curves(e, value)) for value in self.values]
            return [difference(n, b, a) for n, (a, b) in zip(names, pairwise(values), strict=True)]

        return estimates(names, found)


def check_convergence(e: Evidence, grid: str, *matrices: str) -> None:
    """Raise `NotThere` if too few eigenvalues of the networks of a grid have converged.

    matrices: hessian, gauss_newton.
    """
    for name in matrices:
        share = float(np.nanmean(e.values(grid, f"{name}_converged")))
        if share < CONVERGED:
            found = f"{share:.1%} of the eigenvalues ({name}) of {grid} converged"
            raise NotThere(f"{found}, a claim about sharpness needs {CONVERGED:.0%}")
