"""Training curves of a setting, and estimates from them over its seeds.

A seed is a repetition: a trend is computed for each run, and the estimate is its mean over the
runs, on Fisher's z where it is a correlation. Windows are `training`, all checkpoints, and `I`,
interpolation: from a run's first checkpoint at which the loss on the whole training set is below
1e-2 to the end. Runs that diverged are left out, and in I also those that never interpolate: n is
the number of runs that remain.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from flatlab.lab.tables import eligibility
from flatlab.lab.tables.columns import Column, in_words
from flatlab.lab.tables.eligibility import FEWEST_CHECKPOINTS, NotEligible, estimate, require
from flatlab.lab.tables.selection import INTERPOLATES, end_of_training, through_training
from flatlab.stats.estimate import Array, Estimate, fisher, over_seeds
from flatlab.stats.time_weights import Weight, correlation, shares, trend
from flatlab.stats.trends import mean, pearson, tau_in_order

Window = Literal["training", "I", "first half of I", "last half of I"]


@dataclass(frozen=True, eq=False)
class Curves:
    """Networks that did not diverge, and that were followed in training: as `Networks.curves`.

    key: the experiment.
    table: its table, all runs.
    rows: which of them: (run).
    selection: the hyper-parameters that they have in common, for what they are called.
    known: the table through training, once it was asked for, shared by all selections.

    The methods return estimates over seeds; an estimate that cannot be made says why, and every
    claim about it is `not run`.
    """

    key: str
    table: xr.Dataset
    rows: NDArray[np.bool_]
    selection: Mapping[str, Any]
    known: dict[Any, xr.Dataset] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.key}, {in_words(self.selection)}"

    @functools.cached_property
    def followed(self) -> xr.Dataset:
        """Their part of the table."""
        if "through training" not in self.known:
            self.known["through training"] = through_training(self.table)
        counted = self.known["through training"]
        return counted.sel(run=np.isin(counted["run"].values, self.table["run"].values[self.rows]))

    @property
    def runs(self) -> xr.Dataset:
        """The same, if there are any networks."""
        if not self.followed.sizes["run"]:
            why = eligibility.shortfall(self.table) or "it has no such setting"
            raise NotEligible(f"{self} has no networks measured through training: {why}")
        return self.followed

    def values(self, name: str, samples: str = "train") -> Array:
        """A column of each run at each checkpoint: (runs, checkpoints)."""
        eligibility.require_converged(self.key, self.table, Column.of(name).quantity)
        return series(self.key, self.runs, name, samples)

    def ends(self, *names: str, interpolating: bool = True) -> Array:
        """Quantities at the end of training: (names, runs).  interpolating: only of such runs."""
        runs = np.ones(self.runs.sizes["run"], bool)
        if interpolating:
            runs = eligibility.interpolates(self.runs)
            require(runs.sum(), self, "networks that interpolate", self._why)
        return self.enough(np.stack([self.end(name)[runs] for name in names], 1), *names).T

    def end(self, name: str) -> Array:
        """A column at the end of training: (runs)."""
        self.values(name)
        column = Column.of(name)
        # a quantity without samples keeps the coordinate, which the selection needs
        alone = self.runs[[column.quantity]].assign_coords(samples=self.runs["samples"])
        return column.values(end_of_training(alone))

    @property
    def _why(self) -> str:
        """Why there are not more."""
        return eligibility.shortfall(self.table, interpolating=True)

    def from_the_start(self, values: Array) -> Array:
        """Those of the values (runs, checkpoints) that are at iteration 0: (runs)."""
        if self.runs["checkpoint"].values[0] != 0:
            raise NotEligible(f"{self.key} has no checkpoint at iteration 0")
        return values[:, 0]

    def trend(
        self, name: str, window: Window, samples: str = "train", by: Weight = "alike"
    ) -> Estimate:
        """Kendall's tau-a between iteration and the curve.  by: what checkpoints count for."""

        def of_runs() -> Array:
            curves = self.seen([name], window, samples)
            counts = [values.shape[1] * (values.shape[1] - 1) / 2 for _, values in curves]
            if by == "alike":
                taus = [float(tau_in_order(values)[0]) for _, values in curves]
            else:
                taus = [trend(values[0], shares(times, by)) for times, values in curves]
            return np.array([float(fisher(t, n)) for t, n in zip(taus, counts, strict=True)])

        what = f"trend({_on(name, samples)}, {window}{_weighted(by)})"
        return self.over_runs(what, of_runs, on_z=True)

    def rhos(
        self, *pairs: tuple[str, str], window: Window, samples: str = "train", by: Weight = "alike"
    ) -> list[Estimate]:
        """Pearson's correlations over checkpoints of pairs of curves, at the same checkpoints."""
        names = sorted({name for pair in pairs for name in pair})

        def of_runs(a: str, b: str) -> Array:
            curves = self.seen(names, window, samples)
            x, y = names.index(a), names.index(b)
            if by == "alike":
                return fisher([pearson(values[[x]], values[[y]])[0] for _, values in curves])
            return fisher([correlation(v[x], v[y], shares(times, by)) for times, v in curves])

        return [
            self.over_runs(
                f"rho_t({_on(a, samples)}, {_on(b, samples)}, {window}{_weighted(by)})",
                functools.partial(of_runs, a, b),
                on_z=True,
            )
            for a, b in pairs
        ]

    def over_runs(self, what: str, of_runs: Callable[[], Array], on_z: bool = False) -> Estimate:
        """The mean over runs of a number that each has; on_z: of Fisher's z, shown as itself."""
        name = f"{what}; {self}"

        def mean_over_runs() -> Estimate:
            values = of_runs()
            require(len(values), self)
            return over_seeds(name, mean, values, on_z=on_z)

        return estimate(name, mean_over_runs)

    def interpolating(self) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Whether each run interpolates, and at which checkpoint it begins to: (runs) each."""
        below = self.values("train_loss") < INTERPOLATES
        runs = np.asarray(below.any(axis=1))
        require(runs.sum(), self, "networks that interpolate", self._why)
        return runs, below.argmax(axis=1)

    def seen(
        self, names: list[str], window: Window, samples: str
    ) -> list[tuple[NDArray[np.int64], Array]]:
        """Of each run, iterations and values (quantities, checkpoints), none of them missing."""
        every_value = np.stack([self.values(name, samples) for name in names], axis=1)
        times = self.runs["checkpoint"].values
        runs, begins = np.ones(len(every_value), bool), np.zeros(len(every_value), int)
        if window != "training":
            runs, begins = self.interpolating()
        segments = []
        for values, begin in zip(every_value[runs], begins[runs], strict=True):
            seen = np.isfinite(values).all(axis=0) & (np.arange(len(times)) >= begin)
            places = np.flatnonzero(seen)
            middle = len(places) // 2
            halves = {"first half of I": slice(None, middle), "last half of I": slice(middle, None)}
            # A run that begins late has no half: both are compared, so both are of the same runs.
            if (middle if window in halves else len(places)) >= FEWEST_CHECKPOINTS:
                places = places[halves.get(window, slice(None))]
                segments.append((times[places], values[:, places]))
        what = f"networks with {' and '.join(names)} at {FEWEST_CHECKPOINTS} checkpoints ({window})"
        require(len(segments), self, what)
        return segments

    def enough(self, values: Array, *names: str) -> Array:
        """The runs with finite values (runs, ...), as many as a mean needs."""
        chosen = values[np.isfinite(values.reshape(len(values), -1)).all(axis=1)]
        require(len(chosen), self, f"networks with {' and '.join(dict.fromkeys(names))}")
        return chosen


def series(key: str, runs: xr.Dataset, name: str, samples: str = "train") -> Array:
    """A column of some runs at their checkpoints: (runs, checkpoints).

    key: the experiment.
    runs: the part of its table.
    name: the column.
    samples: the sample set, where it was measured on several.
    """
    column = Column.of(name)
    if column.quantity in runs and "samples" in runs[column.quantity].dims:
        if samples not in runs["samples"].values:
            raise NotEligible(f"{key} has no {samples} samples")
        runs = runs[[column.quantity]].sel(samples=samples)
    return column.values(runs)


def _on(name: str, samples: str) -> str:
    return name if samples == "train" else f"{name} on {samples} samples"


def _weighted(by: Weight) -> str:
    return "" if by == "alike" else f", by {by}"
