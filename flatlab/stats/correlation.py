"""Pearson correlations of all pairs of quantities: pooled, within and between settings.

Five settings with twenty seeds each are, pooled, mostly five points. The within-setting
correlation is that of deviations from the setting's mean; the between-setting one that of the
settings' means. All three, for all pairs, come from the same matrix of resamples.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flatlab.stats.bootstrap import (
    RESAMPLES,
    Array,
    Estimate,
    bca,
    leave_one_out,
    resample,
    undefined,
)

Kind = Literal["pooled", "within", "between"]
KINDS: tuple[Kind, ...] = ("pooled", "within", "between")
FEWEST = 3
"""Runs of which there is a correlation."""

BLOCK = 8
"""Pairs that are computed at a time."""


class Correlations:
    """Correlations over the runs of a table.

    columns: quantity -> (runs).  settings: (runs), the strata.  Runs with a value that is not
    finite are left out of every pair that uses it, and counted by `runs_used`.
    """

    def __init__(
        self,
        columns: Mapping[str, NDArray[np.float64]],
        settings: Sequence[str],
        resamples: int = RESAMPLES,
        seed: int = 0,
    ) -> None:
        self.names = list(columns)
        self.values = np.column_stack([np.asarray(columns[n], dtype=float) for n in self.names])
        self.strata = np.unique(np.asarray(settings), return_inverse=True)[1].astype(np.int64)
        self.resamples, self.seed = resamples, seed

    def rho(self, x: str, y: str, kind: Kind = "pooled") -> Estimate:
        """One correlation with its bootstrap."""
        return self.rhos((x, y), kind=kind)[0]

    def rhos(self, *pairs: tuple[str, str], kind: Kind = "pooled") -> list[Estimate]:
        """Correlations to be compared: all of the runs that have every quantity of these pairs."""
        used = sorted({self.names.index(name) for pair in pairs for name in pair})
        data = self._resampled(*used)
        estimates = []
        for x, y in pairs:
            name = f"rho({x}, {y})" if kind == "pooled" else f"rho_{kind}({x}, {y})"
            if len(data.strata) < FEWEST:
                reason = f"{name}: {len(data.strata)} runs have all that is compared"
                estimates.append(undefined(name, reason))
                continue
            i, j = used.index(self.names.index(x)), used.index(self.names.index(y))
            one, many, jackknife = (part[:, 0] for part in data.rho(kind, [i], [j]))
            estimates.append(Estimate(name, float(one[0]), many, data.strata, jackknife))
        return estimates

    def runs_used(self, x: str, y: str) -> int:
        """How many runs have both quantities."""
        columns = [self.names.index(x), self.names.index(y)]
        return int(np.isfinite(self.values[:, columns]).all(axis=1).sum())

    def matrix(self, kind: Kind) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
        """Value, low, high and "percentile instead of BCa" of all pairs: (quantities, quantities).

        Quantities that are finite for all runs share one computation; one with gaps has pairs with
        runs of their own.
        """
        count = len(self.names)
        value, low, high = (np.full((count, count), np.nan) for _ in range(3))
        fallback = np.zeros((count, count), dtype=bool)
        whole = np.isfinite(self.values).all(axis=0)
        groups = [tuple(np.flatnonzero(whole).tolist())] if whole.any() else []
        groups += [(i, j) for i in range(count) for j in range(i) if not (whole[i] and whole[j])]
        for group in groups:
            data = self._resampled(*group)
            if len(data.strata) < FEWEST:
                continue
            pairs = np.stack(np.triu_indices(len(group)))
            for start in range(0, pairs.shape[1], BLOCK):
                a, b = pairs[:, start : start + BLOCK]
                one, many, jackknife = data.rho(kind, a, b)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
                    ends = bca(one[0], many, jackknife, data.strata)
                rows, columns = np.array(group)[a], np.array(group)[b]
                for place in ((rows, columns), (columns, rows)):
                    value[place], (low[place], high[place], fallback[place]) = one[0], ends
        return value, low, high, fallback

    @functools.cache  # noqa: B019 - lives as long as the correlations of one table
    def _resampled(self, *columns: int) -> _Resampled:
        """Of the runs that have all of these quantities."""
        rows = np.isfinite(self.values[:, columns]).all(axis=1)
        values = self.values[rows][:, columns]
        return _Resampled(values, self.strata[rows], self.resamples, self.seed)


class _Resampled:
    """Correlations of the data, of each resample and of the jackknife; nothing of too few runs."""

    def __init__(self, values: Array, strata: NDArray[np.int64], resamples: int, seed: int) -> None:
        self.strata = strata
        self.parts: list[_Weighted] = []
        runs = len(values)
        if runs < FEWEST:
            return
        scale = values.std(axis=0)
        values = (values - values.mean(axis=0)) / np.where(scale > 0, scale, 1)
        weights = (np.ones((1, runs)), resample(strata, resamples, seed), leave_one_out(runs))
        self.parts = [_Weighted(values, strata, part) for part in weights]

    def rho(self, kind: Kind, a: ArrayLike, b: ArrayLike) -> list[Array]:
        """Of the pairs of a and b (pairs): (1, pairs), (resamples, pairs), (runs, pairs)."""
        return [part.rho(kind, np.asarray(a), np.asarray(b)).T for part in self.parts]


class _Weighted:
    """Correlations under many weights.

    values: (runs, quantities).  strata: (runs).  weights: (w, runs), how often each run counts.
    Arrays are (quantities or pairs, w): a block of pairs at a time stays in the cache.
    """

    def __init__(self, values: Array, strata: NDArray[np.int64], weights: Array) -> None:
        self.values, self.weights = values.T, weights.T
        self.count = self.weights.sum(axis=0)
        self.mean = self.values @ self.weights / self.count
        self.shifts = []  # of each stratum: its size, and how far its mean is from that of all
        for stratum in np.unique(strata):
            part = self.weights[strata == stratum]
            size = part.sum(axis=0)
            with np.errstate(invalid="ignore"):
                shift = self.values[:, strata == stratum] @ part / size - self.mean
            shift[:, size == 0] = 0
            self.shifts.append((size, shift))
        each = np.arange(len(self.values))
        variances = {kind: self._covariance(kind, each, each) for kind in KINDS}
        self.deviation = {kind: self._deviation(variance) for kind, variance in variances.items()}

    def rho(self, kind: Kind, a: NDArray[np.intp], b: NDArray[np.intp]) -> Array:
        """(pairs, w); NaN where a variance is zero."""
        deviation = self.deviation[kind]
        return np.clip(self._covariance(kind, a, b) / (deviation[a] * deviation[b]), -1, 1)

    def _covariance(self, kind: Kind, a: NDArray[np.intp], b: NDArray[np.intp]) -> Array:
        """Summed over the runs: pooled is the sum of within and between."""
        if kind == "between":
            return sum((size * shift[a] * shift[b] for size, shift in self.shifts), np.zeros(()))
        around_zero = (self.values[a] * self.values[b]) @ self.weights
        pooled = around_zero - self.count * self.mean[a] * self.mean[b]
        return pooled if kind == "pooled" else pooled - self._covariance("between", a, b)

    def _deviation(self, variance: Array) -> Array:
        # what is left of a constant after rounding is not a variance
        return np.sqrt(np.where(variance > 1e-12 * len(variance), variance, np.nan))
