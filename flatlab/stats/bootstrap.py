"""The bootstrap, stratified by setting: weights, estimates and BCa intervals.

A resample draws, within each stratum, as many runs as it has, with replacement; it is stored as
how often each run was drawn, so that one matrix serves every statistic of a table.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from flatlab.stats.verdict import Verdict, compare

Array = NDArray[np.float64]
RESAMPLES = 10_000
LEVEL = 0.95


def resample(strata: NDArray[np.int64], resamples: int, seed: int) -> Array:
    """How often each run is drawn: (resamples, runs). strata: (runs), the number of each one's."""
    generator = np.random.default_rng(seed)
    weights = np.zeros((resamples, len(strata)))
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        share = np.full(len(members), 1 / len(members))
        weights[:, members] = generator.multinomial(len(members), share, size=resamples)
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

    name: as in a claim, "rho(mls, nmls)".  resampled: (resamples).  jackknife, strata: (runs).
    """

    name: str
    value: float
    resampled: Array
    jackknife: Array
    strata: NDArray[np.int64]

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """The BCa interval, or the percentile one where that is not defined."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
            low, high, _ = bca(
                np.array(self.value), self.resampled, self.jackknife, self.strata, level
            )
        return float(low), float(high)

    def __sub__(self, other: Estimate) -> Estimate:
        return Estimate(
            f"{self.name} - {other.name}",
            self.value - other.value,
            self.resampled - other.resampled,
            self.jackknife - other.jackknife,
            self.strata,
        )

    def __abs__(self) -> Estimate:
        return Estimate(
            f"|{self.name}|",
            abs(self.value),
            np.abs(self.resampled),
            np.abs(self.jackknife),
            self.strata,
        )

    def __gt__(self, other: Estimate | float) -> Verdict:
        """The claim that this exceeds another estimate or a number."""
        if isinstance(other, Estimate):
            return (self - other) > 0.0
        return compare(self.name, self.value, self.interval(), other, greater=True)

    def __lt__(self, other: Estimate | float) -> Verdict:
        """The claim that this is below another estimate or a number."""
        if isinstance(other, Estimate):
            return (self - other) < 0.0
        return compare(self.name, self.value, self.interval(), other, greater=False)
