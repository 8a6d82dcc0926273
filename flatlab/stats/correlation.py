"""Pearson correlations of all pairs of quantities: pooled, within and between settings.

Five settings of twenty seeds each amount, when pooled, to little more than five points. The
correlation within settings is of deviations from the setting's mean, the one between settings of
the settings' means. All three, for all pairs, come from the same matrix of resamples.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flatlab.stats.bootstrap import RESAMPLES, Array, Estimate, bca, resample, undefined

Kind = Literal["pooled", "within", "between"]
KINDS: tuple[Kind, ...] = ("pooled", "within", "between")
Places = NDArray[np.intp]

FEWEST = 3
"""The fewest runs that have a correlation."""

BLOCK = 8
"""Pairs that are computed at a time."""


class Correlations:
    """Correlations over the runs of a table.

    columns: quantity -> (runs).  settings: (runs), the strata.  Runs with a value that is not
    finite are left out of every pair that uses it; `runs_used` counts the others.
    """

    def __init__(
        self,
        columns: Mapping[str, NDArray[np.float64]],
        settings: Sequence[str],
        resamples: int = RESAMPLES,
    ) -> None:
        self.names = list(columns)
        self.values = np.column_stack([np.asarray(columns[n], dtype=float) for n in self.names])
        self.strata = np.unique(np.asarray(settings), return_inverse=True)[1].astype(np.int64)
        self.resamples = resamples

    def rho(self, x: str, y: str, kind: Kind = "pooled") -> Estimate:
        """One correlation with its bootstrap."""
        return self.rhos((x, y), kind=kind)[0]

    def rhos(self, *pairs: tuple[str, str], kind: Kind = "pooled") -> list[Estimate]:
        """Correlations to be compared, over the runs that have every quantity of these pairs."""
        used = sorted({self.names.index(name) for pair in pairs for name in pair})
        strata, weighted = self._weighted(*used)
        estimates = []
        for x, y in pairs:
            name = f"rho({x}, {y})" if kind == "pooled" else f"rho_{kind}({x}, {y})"
            if not weighted:
                reason = f"{name}: {len(strata)} runs have all the quantities that are compared"
                estimates.append(undefined(name, reason))
                continue
            a, b = (np.array([used.index(self.names.index(quantity))]) for quantity in (x, y))
            value, resampled, jackknife = (part.rho(kind, a, b)[0] for part in weighted)
            estimates.append(Estimate(name, float(value[0]), resampled, strata, jackknife))
        return estimates

    def runs_used(self, x: str, y: str) -> int:
        """How many runs have both quantities."""
        columns = [self.names.index(x), self.names.index(y)]
        return int(np.isfinite(self.values[:, columns]).all(axis=1).sum())

    def matrix(self, kind: Kind) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
        """Value, low, high and "percentile instead of BCa" of all pairs: (quantities, quantities).

        Quantities that are finite for all runs share one computation; pairs with any other
        quantity are computed one by one, each for the runs that have both.
        """
        count = len(self.names)
        value, low, high = np.full((3, count, count), np.nan)
        fallback = np.zeros((count, count), dtype=bool)
        whole = np.isfinite(self.values).all(axis=0)
        groups = [tuple(np.flatnonzero(whole).tolist())] if whole.any() else []
        groups += [(i, j) for i in range(count) for j in range(i) if not (whole[i] and whole[j])]
        for group in groups:
            strata, weighted = self._weighted(*group)
            if not weighted:
                continue
            pairs = np.stack(np.triu_indices(len(group)))
            for start in range(0, pairs.shape[1], BLOCK):
                a, b = pairs[:, start : start + BLOCK]
                (one,), many, jackknife = (part.rho(kind, a, b).T for part in weighted)
                ends = bca(one, many, jackknife, strata)
                rows, columns = np.array(group)[a], np.array(group)[b]
                for place in ((rows, columns), (columns, rows)):
                    value[place], (low[place], high[place], fallback[place]) = one, ends
        return value, low, high, fallback

    @functools.cache  # noqa: B019 - lives as long as the correlations of one table
    def _weighted(self, *columns: int) -> tuple[NDArray[np.int64], list["_Weighted"]]:
        """The runs that have all of these quantities: as they are, each resample, the jackknife.

        Returns their strata and these three, which are left out if the runs are too few.
        """
        rows = np.isfinite(self.values[:, columns]).all(axis=1)
        values, strata = self.values[rows][:, columns], self.strata[rows]
        runs = len(values)
        if runs < FEWEST:
            return strata, []
        scale = values.std(axis=0)
        values = (values - values.mean(axis=0)) / np.where(scale > 0, scale, 1)
        # apart: in one matrix they would be rounded differently
        weights = (np.ones((1, runs)), resample(strata, self.resamples), 1 - np.eye(runs))
        return strata, [_Weighted(values, strata, part) for part in weights]


class _Weighted:
    """Correlations under many weights.

    values: (runs, quantities).  strata: (runs).  weights: (w, runs), how often each run counts.
    Arrays are (quantities or pairs, w): a block of pairs at a time stays in the processor's cache.
    """

    def __init__(self, values: Array, strata: NDArray[np.int64], weights: Array) -> None:
        self.values, self.weights = values.T, weights.T
        self.count = self.weights.sum(axis=0)
        self.mean = self.values @ self.weights / self.count
        self.shifts = []  # of each stratum: its size, and its mean less the mean of all runs
        for stratum in np.unique(strata):
            part = self.weights[strata == stratum]
            size = part.sum(axis=0)
            with np.errstate(invalid="ignore"):
                shift = self.values[:, strata == stratum] @ part / size - self.mean
            shift[:, size == 0] = 0
            self.shifts.append((size, shift))
        each = np.arange(len(self.values))
        self.deviation: dict[Kind, Array] = {}
        for kind in KINDS:
            variance = self._covariance(kind, each, each)
            # the rounding error that remains of a constant is not a variance
            defined = np.where(variance > 1e-12 * len(variance), variance, np.nan)
            self.deviation[kind] = np.sqrt(defined)

    def rho(self, kind: Kind, a: Places, b: Places) -> Array:
        """The correlations of the quantities a with b: (pairs, w); NaN where a variance is zero."""
        deviation = self.deviation[kind]
        return np.clip(self._covariance(kind, a, b) / (deviation[a] * deviation[b]), -1, 1)

    def _covariance(self, kind: Kind, a: Places, b: Places) -> Array:
        """Summed over the runs: pooled is the sum of within and between."""
        if kind == "between":
            return sum((size * shift[a] * shift[b] for size, shift in self.shifts), np.zeros(()))
        around_zero = (self.values[a] * self.values[b]) @ self.weights
        pooled = around_zero - self.count * self.mean[a] * self.mean[b]
        return pooled if kind == "pooled" else pooled - self._covariance("between", a, b)
