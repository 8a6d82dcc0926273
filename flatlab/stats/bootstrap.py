"""The bootstrap, stratified by setting: weights, estimates, BCa and percentile intervals.

A resample draws, within each stratum, as many runs as the stratum has, with replacement. It is
stored as the number of times that each run was drawn, so that one matrix serves every statistic.
"""

import functools
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from flatlab.stats.verdict import Verdict

Array = NDArray[np.float64]
RESAMPLES = 10_000
LEVEL = 0.95
TAIL = (1 - LEVEL) / 2


def resample(strata: NDArray[np.int64], resamples: int) -> Array:
    """How often each run is drawn: (resamples, runs), read-only. strata: (runs), their numbers.

    The resamples of the same runs are the same in every call, so that statistics of these runs
    can be compared resample by resample.
    """
    return _resample(tuple(strata.tolist()), resamples)


@functools.lru_cache(maxsize=8)
def _resample(runs: tuple[int, ...], resamples: int) -> Array:
    strata = np.array(runs, dtype=np.int64)
    generator = np.random.default_rng(0)
    weights = np.zeros((resamples, len(strata)))
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        share = np.full(len(members), 1 / len(members))
        weights[:, members] = generator.multinomial(len(members), share, size=resamples)
    weights.setflags(write=False)
    return weights


def bca(
    value: Array, resampled: Array, jackknife: Array, strata: NDArray[np.int64]
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Bias-corrected and accelerated intervals, for many statistics at once.

    value: (...).  resampled: (resamples, ...).  jackknife: (runs, ...).  strata: (runs).
    Returns low, high, and where the percentile interval was used instead (...), because all
    resamples lie on one side and the correction is not defined. Resamples that are not finite are
    left out. Source: Efron (1987); several samples as in scipy.stats.bootstrap.
    """
    finite = np.isfinite(resampled)
    top, bottom = np.zeros((2, *np.shape(value)))
    with np.errstate(invalid="ignore", divide="ignore"):
        below = np.where(finite, 0.5 + 0.5 * np.sign(value - resampled), 0).sum(axis=0)
        shift = ndtri(below / finite.sum(axis=0))
        for stratum in np.unique(strata):
            part = jackknife[strata == stratum]
            influence = (len(part) - 1) * (part.mean(axis=0) - part)
            top += (influence**3).sum(axis=0) / len(part) ** 3
            bottom += (influence**2).sum(axis=0) / len(part) ** 2
        acceleration = top / (6 * bottom**1.5)
        low, high = (
            ndtr(shift + (shift + z) / (1 - acceleration * (shift + z)))
            for z in (ndtri(TAIL), ndtri(1 - TAIL))
        )
    fallback = np.asarray(~(np.isfinite(low) & np.isfinite(high)))
    levels = np.where(fallback, TAIL, low), np.where(fallback, 1 - TAIL, high)
    low, high = _quantiles(resampled, *levels)
    return low, high, fallback


def _quantiles(resampled: Array, *levels: ArrayLike) -> list[Array]:
    """Quantiles of the finite resamples, each statistic at levels of its own; NaN without any.

    resampled: (resamples, ...).  levels: (...) each, as the results.
    """
    ordered = np.sort(resampled, axis=0)  # NaN are sorted to the end
    last = np.maximum(np.isfinite(ordered).sum(axis=0) - 1, 0)
    results = []
    for level in levels:
        place = level * last
        under = np.floor(place).astype(int)
        a, b = (
            np.take_along_axis(ordered, index[None], axis=0)[0]
            for index in (under, np.minimum(under + 1, last))
        )
        results.append(a + (place - under) * (b - a))
    return results


@dataclass(frozen=True, eq=False)
class Estimate:
    """A number with its bootstrap: differences and absolute values keep the resamples together.

    name: as in a claim, "rho(mls, nmls)".  resampled: (resamples).  strata: (runs), of the runs
    used.  jackknife: (runs), for a BCa interval; without it the interval is the percentile one.
    reason: why there is no number, if there is none.
    """

    name: str
    value: float
    resampled: Array
    strata: NDArray[np.int64]
    jackknife: Array | None = None
    reason: str = ""

    def interval(self) -> tuple[float, float]:
        """The BCa interval; the percentile one without a jackknife or where BCa is not defined."""
        if self.jackknife is None:
            low, high = _quantiles(self.resampled, TAIL, 1 - TAIL)
        else:
            low, high, _ = bca(np.array(self.value), self.resampled, self.jackknife, self.strata)
        return float(low), float(high)

    def __sub__(self, other: "Estimate") -> "Estimate":
        name = f"{self.name} - {other.name}"
        if self.reason or other.reason:
            return undefined(name, self.reason or other.reason)
        if len(self.strata) != len(other.strata):
            raise ValueError(f"{name}: these are not estimates of the same runs")
        jackknife = None
        if self.jackknife is not None and other.jackknife is not None:
            jackknife = self.jackknife - other.jackknife
        resampled = self.resampled - other.resampled
        return Estimate(name, self.value - other.value, resampled, self.strata, jackknife)

    def __abs__(self) -> "Estimate":
        """Its interval is the percentile one: near zero, BCa takes the folding for a bias."""
        value, resampled = abs(self.value), np.abs(self.resampled)
        return replace(
            self, name=f"|{self.name}|", value=value, resampled=resampled, jackknife=None
        )

    def __gt__(self, other: "Estimate | float") -> Verdict:
        """The claim that this exceeds another estimate or a number."""
        return self._compared_with(other, greater=True)

    def __lt__(self, other: "Estimate | float") -> Verdict:
        """The claim that this is below another estimate or a number."""
        return self._compared_with(other, greater=False)

    def _compared_with(self, other: "Estimate | float", greater: bool) -> Verdict:
        if isinstance(other, Estimate):
            return (self - other)._compared_with(0.0, greater)
        entry = {**self.report(), "claim": f"{'>' if greater else '<'} {other:g}"}
        low, high = entry["low"], entry["high"]
        if not (isfinite(self.value) and isfinite(low) and isfinite(high)):
            reason = self.reason or f"{self.name} is not defined for these runs"
            return Verdict("not run", reason, [entry])
        holds, fails = (low > other, high < other) if greater else (high < other, low > other)
        return Verdict("holds" if holds else "fails" if fails else "undecided", "", [entry])

    def report(self) -> dict[str, Any]:
        """The number, its interval and how many runs it is of, as an entry of the evidence."""
        low, high = self.interval()
        n = len(self.strata)
        return {"quantity": self.name, "value": self.value, "low": low, "high": high, "n": n}


def undefined(name: str, reason: str) -> Estimate:
    """An estimate without a number: every claim about it is `not run` for this reason."""
    return Estimate(name, np.nan, np.full(1, np.nan), np.zeros(0, np.int64), reason=reason)
