"""Training curves of a setting: estimates from them over its seeds, and their ends along a sweep.

Windows are `training`, all checkpoints, and `I`, interpolation: from the first checkpoint at which
the loss on the whole training set is below 1e-2 to the end. Each run has its own I; where seeds
are averaged into a curve, I begins when the last of them interpolates. Runs that diverged are left
out, and in I also those that never interpolate: n is the number of runs that remain.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from flatlab.claims.evidence import (
    FEWEST_RUNS,
    Array,
    Evidence,
    NotThere,
    Pair,
    Setting,
    enough,
    estimate,
    series,
)
from flatlab.stats import Estimate, Verdict, every
from flatlab.stats.trends import difference, mean, over_seeds, pearson, tau, tau_in_order
from flatlab.tables.selection import INTERPOLATES, TREND_SEEDS, end_of_training

FEWEST_CHECKPOINTS = 3
"""The fewest checkpoints that have a trend."""

NEAR = 0.2
"""How far from a requested iteration, relative to it, the nearest checkpoint may lie."""

Window = Literal["training", "I", "first half of I", "last half of I"]
Sweep = Sequence[Setting]
"""Settings in the order of the one hyper-parameter in which they differ."""


@dataclass(frozen=True, eq=False)
class Curves:
    """The runs of one setting of a grid that did not diverge, for the seeds of trend figures.

    The methods return estimates over seeds with percentile intervals; an estimate that cannot be
    made says why, and every claim about it is `not run`.
    """

    evidence: Evidence
    grid: str
    setting: Setting

    def __str__(self) -> str:
        return f"{self.grid}, {in_words(self.setting)}"

    @functools.cached_property
    def runs(self) -> xr.Dataset:
        """The runs of this setting in the grid's table."""
        chosen = self.evidence.runs(self.grid, self.setting, TREND_SEEDS)
        if not chosen.sizes["run"]:
            raise NotThere(f"{self} has no runs that did not diverge")
        return chosen

    def values(self, name: str, samples: str = "train") -> Array:
        """A quantity of each run at each checkpoint: (runs, checkpoints)."""
        return series(self.grid, self.runs, name, samples)

    def ends(self, *names: str) -> Array:
        """Quantities at the end of training, of the runs that have all of them: (names, runs)."""
        return self._enough(np.stack([self._end(name) for name in names], 1), *names).T

    def _end(self, name: str) -> Array:
        self.values(name)
        # a quantity without samples keeps the coordinate, which the selection needs
        alone = self.runs[[name]].assign_coords(samples=self.runs["samples"])
        return end_of_training(alone)[name].values

    def trend(self, name: str, window: Window, samples: str = "train") -> Estimate:
        """Kendall's tau-a between iteration and the curve."""
        return self._estimate(
            f"trend({_on(name, samples)}, {window})",
            tau_in_order,
            lambda: self._seen([name], window, samples)[1],
        )

    def rhos(self, *pairs: Pair, window: Window, samples: str = "train") -> list[Estimate]:
        """Pearson's correlations over checkpoints of pairs of curves, at the same checkpoints."""
        names = sorted({name for pair in pairs for name in pair})
        return [
            self._estimate(
                f"rho_t({_on(a, samples)}, {_on(b, samples)}, {window})",
                lambda *means, a=a, b=b: pearson(means[names.index(a)], means[names.index(b)]),
                lambda: self._seen(names, window, samples)[1],
            )
            for a, b in pairs
        ]

    def slowing(self, name: str) -> Estimate:
        """Size of the slope per iteration in the last half of I less that in the first half."""
        halves: tuple[Window, Window] = ("first half of I", "last half of I")

        def slopes() -> list[Array]:
            parts = (self._seen([name], half, "train") for half in halves)
            return [np.polyfit(times, values.T, 1)[0] for times, (values,) in parts]

        label = " - ".join(f"|slope({name}, {half})|" for half in reversed(halves))
        return self._estimate(label, lambda first, last: np.abs(last) - np.abs(first), slopes)

    def since_the_start(self, name: str) -> Estimate:
        """A quantity at the beginning of I less the same at iteration 0."""

        def changes() -> list[Array]:
            if self.runs["checkpoint"].values[0] != 0:
                raise NotThere(f"{self.grid} has no checkpoint at iteration 0")
            values, (runs, begins) = self.values(name), self._interpolating()
            return [self._enough(values[runs, begins[runs]] - values[runs, 0], name)]

        return self._estimate(f"{name} at the start of I - at 0", mean, changes)

    def excess(self, name: str, samples: str, over: str) -> Estimate:
        """Mean over I of a quantity on some samples less that on others."""

        def means() -> list[Array]:
            more = self.values(name, samples) - self.values(name, over)
            runs, begins = self._interpolating()
            inside = np.isfinite(more) & (np.arange(more.shape[1]) >= begins[:, None])
            runs &= inside.any(axis=1)
            return [self._enough(np.mean(more[runs], axis=1, where=inside[runs]), name)]

        return self._estimate(f"{_on(name, samples)} - {_on(name, over)}, mean over I", mean, means)

    def since(self, iteration: int, name: str, relative: bool = False) -> Estimate:
        """Change of the mean over seeds of a quantity from an iteration to the end."""

        def both() -> Array:
            steps = self.runs["checkpoint"].values
            nearest = int(np.abs(steps - iteration).argmin())
            if abs(steps[nearest] - iteration) > NEAR * iteration or nearest == len(steps) - 1:
                missing = f"no checkpoint near iteration {iteration:,} before the end"
                raise NotThere(f"{self.grid} has {missing}")
            ends = np.stack([self.values(name)[:, nearest], self._end(name)], axis=1)
            return self._enough(ends, name).T

        label = f"{'relative ' if relative else ''}change of {name} since iteration {iteration:,}"
        change = (lambda then, now: now / then - 1) if relative else (lambda then, now: now - then)
        return self._estimate(label, change, both)

    def mean_of_ends(self, what: str, of: Callable[..., Array], *names: str) -> Estimate:
        """Mean over seeds of a function of quantities at the end of training: (runs) each."""
        return self._estimate(f"{what} at the end", mean, lambda: [of(*self.ends(*names))])

    def _estimate(
        self, what: str, statistic: Callable[..., Array], columns: Callable[[], Iterable[Array]]
    ) -> Estimate:
        name = f"{what}; {self}"
        return estimate(name, lambda: over_seeds(name, statistic, *columns()))

    def _interpolating(self) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Whether each run interpolates, and at which checkpoint it begins to: (runs) each."""
        below = self.values("train_loss") < INTERPOLATES
        runs = np.asarray(below.any(axis=1))
        what = f"runs (of {len(runs)}) with a training loss below {INTERPOLATES:g}"
        enough(runs.sum(), self, what)
        return runs, below.argmax(axis=1)

    def _seen(
        self, names: list[str], window: Window, samples: str
    ) -> tuple[NDArray[np.int64], Array]:
        """Iterations and values (quantities, runs, checkpoints) without missing values.

        Runs without any value are left out first, then checkpoints at which a run has none.
        """
        values = np.stack([self.values(name, samples) for name in names])
        times = self.runs["checkpoint"].values
        if window != "training":
            runs, begins = self._interpolating()
            begin = begins[runs].max()
            values, times = values[:, runs, begin:], times[begin:]
        finite = np.all(np.isfinite(values), axis=0)
        runs = np.any(finite, axis=1)
        seen = np.all(finite[runs], axis=0)
        values, times = values[:, runs][:, :, seen], times[seen]
        middle = len(times) // 2
        halves = {"first half of I": slice(None, middle), "last half of I": slice(middle, None)}
        part = halves.get(window, slice(None))
        values, times = values[:, :, part], times[part]
        if runs.sum() < FEWEST_RUNS or len(times) < FEWEST_CHECKPOINTS:
            found = f"{runs.sum()} runs with {' and '.join(names)} at the same {len(times)}"
            needs = f"{FEWEST_RUNS} runs and {FEWEST_CHECKPOINTS} checkpoints"
            raise NotThere(f"{self} has {found} checkpoints ({window}), a trend needs {needs}")
        return times, values

    def _enough(self, values: Array, *names: str) -> Array:
        chosen = values[np.isfinite(values.reshape(len(values), -1)).all(axis=1)]
        enough(len(chosen), self, f"runs with {' and '.join(dict.fromkeys(names))}")
        return chosen


def difference_of_ends(a: Curves, b: Curves, name: str) -> Estimate:
    """Q(b) - Q(a), where Q is the mean over seeds at the end of training."""
    label = f"Q({name}; {in_words(b.setting)}) - Q({name}; {in_words(a.setting)}); {a.grid}"
    return estimate(label, lambda: difference(label, *b.ends(name), *a.ends(name)))


def monotonic(e: Evidence, grid: str, sweep: Sweep, name: str, rising: bool) -> Verdict:
    """The quantity rises, or falls, along the settings of a sweep.

    Its mean over seeds at the end of training does so at every step from a setting to the next,
    and tau-a between the hyper-parameter and the end of training, over all runs, has that sign.
    """
    curves = [Curves(e, grid, setting) for setting in sweep]
    (varied,) = (key for key, value in sweep[0].items() if any(s[key] != value for s in sweep))
    label = f"tau-a({varied.replace('_', ' ')}, {name}); {grid}"

    def tau_along() -> Estimate:
        ends = [each.ends(name)[0] for each in curves]
        strata = np.repeat(np.arange(len(ends)), [len(values) for values in ends])
        return tau(label, strata.astype(float), np.concatenate(ends), strata)

    steps = [difference_of_ends(a, b, name) for a, b in pairwise(curves)]
    estimates = [*steps, estimate(label, tau_along)]
    return every((x > 0) if rising else (x < 0) for x in estimates)


def in_words(setting: Setting) -> str:
    """A setting as it is called in evidence: "lr 0.1, batch size 20"."""
    told = {k: v if isinstance(v, str) else f"{v:g}" for k, v in setting.items()}
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in told.items())


def _on(name: str, samples: str) -> str:
    return name if samples == "train" else f"{name} on {samples} samples"
