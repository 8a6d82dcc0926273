"""The training of one setting: curves over checkpoints, and estimates of them over its seeds.

Windows are `training`, all checkpoints, and `I`, interpolation: from the first checkpoint at which
the loss on the whole training set is below 1e-2 to the end. Each run has an I of its own; where
seeds are averaged into a curve, I begins when the last of them has begun. Runs that diverged are
left out, and of I also those that never interpolate: n says how many runs are left.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from flatlab.claims.missing import FEWEST_CHECKPOINTS, FEWEST_RUNS, NotThere, enough, estimate
from flatlab.stats import Estimate
from flatlab.stats.trends import over_seeds, pearson, slope, tau_in_order
from flatlab.tables.selection import INTERPOLATES, end_of_training

NEAR = 0.2
"""How far from an iteration that is asked for, relative to it, the nearest checkpoint may lie."""

Array = NDArray[np.float64]
Window = Literal["training", "I", "first half of I", "last half of I"]


class Setting(dict[str, Any]):
    """Hyper-parameters and their values, of a line in a figure: Setting(lr=0.1, batch_size=20)."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(str(self))

    def __str__(self) -> str:
        told = {k: v if isinstance(v, str) else f"{v:g}" for k, v in self.items()}
        return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in told.items())


def series(grid: str, table: xr.Dataset, name: str, samples: str = "train") -> Array:
    """A quantity of the runs of a table at its checkpoints: (runs, checkpoints)."""
    if name not in table:
        raise NotThere(f"{grid} has no {name}")
    array = table[name]
    if "samples" in array.dims:
        if samples not in table["samples"].values:
            raise NotThere(f"{grid} has no {samples} samples")
        array = array.sel(samples=samples)
    return array.values.astype(float)


class Curves:
    """The runs of one setting of a grid that did not diverge, of the seeds of trend figures.

    runs: what selects them.  The methods return estimates over seeds with percentile intervals; an
    estimate that cannot be made says why, and every claim about it is `not run`.
    """

    def __init__(self, grid: str, setting: Setting, runs: Callable[[], xr.Dataset]) -> None:
        self.grid, self.setting, self.runs = grid, setting, runs

    def __str__(self) -> str:
        return f"{self.grid}, {self.setting}"

    @functools.cached_property
    def table(self) -> xr.Dataset:
        """The part of the grid's table."""
        chosen = self.runs()
        if not chosen.sizes["run"]:
            raise NotThere(f"{self} has no runs that did not diverge")
        return chosen

    def values(self, name: str, samples: str = "train") -> Array:
        """A quantity of each run at each checkpoint: (runs, checkpoints)."""
        return series(self.grid, self.table, name, samples)

    def ends(self, *names: str) -> list[Array]:
        """Quantities at the end of training, of the runs that have all of them: (runs) each."""
        return [*self._enough(np.stack([self._end(name) for name in names], 1), *names).T]

    def _end(self, name: str) -> Array:
        self.values(name)
        # a quantity that has no samples keeps the coordinate, for the selection to find
        alone = self.table[[name]].assign_coords(samples=self.table["samples"])
        return end_of_training(alone)[name].values

    @functools.cached_property
    def begins(self) -> NDArray[np.int64]:
        """Where among the checkpoints I begins; behind them where it never does: (runs)."""
        below = self.values("train_loss") < INTERPOLATES
        return np.where(below.any(axis=1), below.argmax(axis=1), below.shape[1])

    def trend(self, name: str, window: Window, samples: str = "train") -> Estimate:
        """Kendall's tau-a between iteration and the curve."""
        return self._estimate(
            f"trend({_of(name, samples)}, {window})",
            tau_in_order,
            lambda: [*self._seen([name], window, samples)[1]],
        )

    def rhos(
        self, *pairs: tuple[str, str], window: Window, samples: str = "train"
    ) -> list[Estimate]:
        """Pearson's correlations over checkpoints of pairs of curves, of the same checkpoints."""
        names = sorted({name for pair in pairs for name in pair})
        return [
            self._estimate(
                f"rho_t({_of(a, samples)}, {_of(b, samples)}, {window})",
                lambda *means, a=a, b=b: pearson(means[names.index(a)], means[names.index(b)]),
                lambda: [*self._seen(names, window, samples)[1]],
            )
            for a, b in pairs
        ]

    def slowing(self, name: str) -> Estimate:
        """Slope of the curve per iteration in the last half of I less that in its first half."""

        def columns() -> list[Array]:
            halves: tuple[Window, Window] = ("first half of I", "last half of I")
            parts = (self._seen([name], half, "train") for half in halves)
            return [slope(times, values[0]) for times, values in parts]

        return self._estimate(
            f"|slope({name}, last half of I)| - |slope({name}, first half of I)|",
            lambda first, last: np.abs(last) - np.abs(first),
            columns,
        )

    def since_the_start(self, name: str) -> Estimate:
        """What a quantity is at the beginning of I, less what it is at iteration 0."""

        def columns() -> list[Array]:
            if self.table["checkpoint"].values[0] != 0:
                raise NotThere(f"{self.grid} has no checkpoint at iteration 0")
            values, runs = self.values(name), self._interpolating()
            return [self._enough(values[runs, self.begins[runs]] - values[runs, 0], name)]

        return self._estimate(f"{name} at the start of I - at 0", _mean, columns)

    def excess(self, name: str, samples: str, over: str) -> Estimate:
        """Mean over I of a quantity on some samples less that on others."""

        def columns() -> list[Array]:
            more = self.values(name, samples) - self.values(name, over)
            inside = np.isfinite(more) & (np.arange(more.shape[1]) >= self.begins[:, None])
            runs = inside.any(axis=1) & self._interpolating()
            means = np.where(inside, more, 0)[runs].sum(axis=1) / inside[runs].sum(axis=1)
            return [self._enough(means, name)]

        return self._estimate(
            f"{_of(name, samples)} - {_of(name, over)}, mean over I", _mean, columns
        )

    def since(self, iteration: int, name: str, relative: bool = False) -> Estimate:
        """Change of a quantity from an iteration to the end, of its mean over seeds."""

        def columns() -> list[Array]:
            steps = self.table["checkpoint"].values
            nearest = int(np.abs(steps - iteration).argmin())
            if abs(steps[nearest] - iteration) > NEAR * iteration or nearest == len(steps) - 1:
                raise NotThere(
                    f"{self.grid} has no checkpoint near iteration {iteration:,} before the end"
                )
            both = np.stack([self.values(name)[:, nearest], self._end(name)], axis=1)
            return [*self._enough(both, name).T]

        what = "relative change" if relative else "change"
        return self._estimate(
            f"{what} of {name} since iteration {iteration:,}",
            lambda then, now: now / then - 1 if relative else now - then,
            columns,
        )

    def mean_of_ends(self, what: str, of: Callable[..., Array], *names: str) -> Estimate:
        """Mean over seeds of a function of quantities at the end of training: (runs) each."""
        return self._estimate(f"{what} at the end", _mean, lambda: [of(*self.ends(*names))])

    def _estimate(
        self, what: str, statistic: Callable[..., Array], columns: Callable[[], list[Array]]
    ) -> Estimate:
        name = f"{what}; {self}"
        return estimate(name, lambda: over_seeds(name, statistic, *columns()))

    def _interpolating(self) -> NDArray[np.bool_]:
        chosen = self.begins < self.table.sizes["checkpoint"]
        loss = f"runs (of {len(chosen)}) with a training loss below {INTERPOLATES:g}"
        enough(chosen.sum(), self, loss)
        return chosen

    def _seen(
        self, names: list[str], window: Window, samples: str
    ) -> tuple[NDArray[np.int64], Array]:
        """Iterations and values (quantities, runs, checkpoints) where no value is missing.

        Runs without any value are left out first, then checkpoints at which a run has none.
        """
        values = np.stack([self.values(name, samples) for name in names])
        times = self.table["checkpoint"].values
        if window != "training":
            runs = self._interpolating()
            begin = self.begins[runs].max()
            values, times = values[:, runs, begin:], times[begin:]
        finite = np.all(np.isfinite(values), axis=0)
        runs = np.any(finite, axis=1)
        seen = np.all(finite[runs], axis=0)
        values, times = values[:, runs][:, :, seen], times[seen]
        middle = len(times) // 2
        half = {"first half of I": slice(None, middle), "last half of I": slice(middle, None)}
        part = half.get(window, slice(None))
        values, times = values[:, :, part], times[part]
        if runs.sum() < FEWEST_RUNS or len(times) < FEWEST_CHECKPOINTS:
            raise NotThere(
                f"{self} has {runs.sum()} runs with {' and '.join(names)} at the same "
                f"{len(times)} checkpoints ({window}), a trend needs {FEWEST_RUNS} runs and "
                f"{FEWEST_CHECKPOINTS} checkpoints"
            )
        return times, values

    def _enough(self, values: Array, *names: str) -> Array:
        """The rows (runs, ...) without a missing value, if there are enough."""
        chosen = values[np.isfinite(values.reshape(len(values), -1)).all(axis=1)]
        enough(len(chosen), self, f"runs with {' and '.join(dict.fromkeys(names))}")
        return chosen


def _mean(mean: Array) -> Array:
    """The mean over seeds itself, as a statistic of it."""
    return mean


def _of(name: str, samples: str) -> str:
    return name if samples == "train" else f"{name} on {samples} samples"
