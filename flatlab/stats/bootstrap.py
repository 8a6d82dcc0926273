"""The bootstrap, stratified by setting: weights, estimates, BCa and percentile intervals.

A resample draws, within each stratum, as many runs as it has, with replacement; it is stored as
how often each run was drawn, so that one matrix serves every statistic of a table.
"""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from flatlab.stats.verdict import Verdict, compare

Array = NDArray[np.float64]
RESAMPLES = 10_000
LEVEL = 0.95


def resample(strata: NDArray[np.int64], resamples: int, seed: int) -> Array:
    """How often each run is drawn: (resamples, runs), read-only. strata: (runs), each one's number.

    The same every time, so that statistics of the same runs stay together, resample by resample.
    """
    return _resample(tuple(strata.tolist()), resamples, seed)


@functools.lru_cache(maxsize=8)
def _resample(runs: tuple[int, ...], resamples: int, seed: int) -> Array:
    strata = np.array(runs, dtype=np.int64)
    generator = np.random.default_rng(seed)
    weights = np.zeros((resamples, len(strata)))
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        share = np.full(len(members), 1 / len(members))
        weights[:, members] = generator.multinomial(len(members), share, size=resamples)
    weights.setflags(write=False)
    return weights


def leave_one_out(runs: int) -> Array:
    """The weights of the jackknife: (runs, runs), each row without one run."""
    return 1.0 - np.eye(runs)


def bca(
    value: Array,
    resampled: Array,
    jackknife: Array,
    strata: NDArray[np.int64],
    level: float = LEVEL,
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Bias-corrected and accelerated intervals, for many statistics at once.

    value: (...).  resampled: (resamples, ...).  jackknife: (runs, ...).  strata: (runs).
    Returns low, high and where the percentile interval had to take its place (...), because the
    correction is not defined there (all resamples on one side). Resamples that are not finite are
    left out. Source: Efron (1987); several samples as in scipy.stats.bootstrap.
    """
    tail = (1 - level) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        below = np.nanmean(_compared(resampled, value), axis=0)
        shift = ndtri(below)
        top = np.zeros_like(value, dtype=float)
        bottom = np.zeros_like(value, dtype=float)
        for stratum in np.unique(strata):
            part = jackknife[strata == stratum]
            influence = (len(part) - 1) * (part.mean(axis=0) - part)
            top += (influence**3).sum(axis=0) / len(part) ** 3
            bottom += (influence**2).sum(axis=0) / len(part) ** 2
        acceleration = top / (6 * bottom**1.5)
        ends = []
        for z in (ndtri(tail), ndtri(1 - tail)):
            ends.append(ndtr(shift + (shift + z) / (1 - acceleration * (shift + z))))
    fallback = ~(np.isfinite(ends[0]) & np.isfinite(ends[1]))
    fallback = np.asarray(fallback)
    low = np.where(fallback, tail, ends[0])
    high = np.where(fallback, 1 - tail, ends[1])
    return (*_quantiles(resampled, low, high), fallback)


def _compared(resampled: Array, value: Array) -> Array:
    """1 below the value, 1/2 at it, 0 above, NaN where a resample is."""
    compared = (resampled < value) + 0.5 * (resampled == value)
    return np.where(np.isfinite(resampled), compared, np.nan)


def _quantiles(resampled: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """The quantile of each statistic at a level of its own; NaN where nothing is finite."""
    ordered = np.sort(resampled, axis=0)
    last = np.isfinite(ordered).sum(axis=0) - 1  # NaN are sorted to the end
    results = []
    for level in (low, high):
        place = np.clip(level, 0, 1) * np.maximum(last, 0)
        under = np.floor(place).astype(int)
        over = np.minimum(under + 1, np.maximum(last, 0))
        a = np.take_along_axis(ordered, under[None], axis=0)[0]
        b = np.take_along_axis(ordered, over[None], axis=0)[0]
        results.append(np.where(last >= 0, a + (place - under) * (b - a), np.nan))
    return results[0], results[1]


@dataclass(frozen=True, eq=False)
class Estimate:
    """A number with its bootstrap: differences and absolute values keep the resamples together.

    name: as in a claim, "rho(mls, nmls)".  resampled: (resamples).  strata: (runs), of the runs
    used.  jackknife: (runs), for a BCa interval; without it the interval is the percentile one.
    reason: why there is no number, where there is none.
    """

    name: str
    value: float
    resampled: Array
    strata: NDArray[np.int64]
    jackknife: Array | None = None
    reason: str = ""

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """The BCa interval, or the percentile one where that is not defined or not wanted."""
        if self.jackknife is None:
            tail = np.array((1 - level) / 2)
            low, high = _quantiles(self.resampled, tail, 1 - tail)
            return float(low), float(high)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
            low, high, _ = bca(
                np.array(self.value), self.resampled, self.jackknife, self.strata, level
            )
        return float(low), float(high)

    def __sub__(self, other: Estimate) -> Estimate:
        name = f"{self.name} - {other.name}"
        if self.reason or other.reason:
            return undefined(name, self.reason or other.reason)
        if len(self.strata) != len(other.strata):
            raise ValueError(f"{name}: not of the same runs, their resamples are not comparable")
        both = self.jackknife is not None and other.jackknife is not None
        return Estimate(
            name,
            self.value - other.value,
            self.resampled - other.resampled,
            self.strata,
            self.jackknife - other.jackknife if both else None,  # type: ignore[operator]
        )

    def __abs__(self) -> Estimate:
        """Its interval is the percentile one: near zero BCa takes the fold for a bias."""
        return Estimate(
            f"|{self.name}|",
            abs(self.value),
            np.abs(self.resampled),
            self.strata,
            reason=self.reason,
        )

    def __gt__(self, other: Estimate | float) -> Verdict:
        """The claim that this exceeds another estimate or a number."""
        return self._compared_with(other, greater=True)

    def __lt__(self, other: Estimate | float) -> Verdict:
        """The claim that this is below another estimate or a number."""
        return self._compared_with(other, greater=False)

    def _compared_with(self, other: Estimate | float, greater: bool) -> Verdict:
        if isinstance(other, Estimate):
            return (self - other)._compared_with(0.0, greater)
        interval, n = self.interval(), len(self.strata)
        return compare(self.name, self.value, interval, other, greater, n, self.reason)

    def report(self) -> dict[str, Any]:
        """As evidence, of no claim."""
        low, high = self.interval()
        n = len(self.strata)
        return {"quantity": self.name, "value": self.value, "low": low, "high": high, "n": n}


def undefined(name: str, reason: str) -> Estimate:
    """No number, and why: every claim about it is `not run` for that reason."""
    return Estimate(name, np.nan, np.full(1, np.nan), np.zeros(0, np.int64), reason=reason)
