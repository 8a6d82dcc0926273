"""Estimates with intervals: the jackknife, stratified by setting, with Student's t.

Left out are the units that vary by chance: seeds of a setting, or whole clusters of networks. The
settings themselves are fixed. With values t_i of a statistic without unit i, the variance is

    sum over strata of f sum_i (t_i - mean of the stratum)^2,    f = (n - 1) / n,

and the degrees of freedom are those of Welch and Satterthwaite over the strata. The interval of a
mean is therefore Student's, that of a difference of two means Welch's. Correlations are computed
on Fisher's z = artanh, and f is 1, as in the jackknife HC3 of MacKinnon and White (1985), because
with five seeds the standard deviations that a correlation divides by are estimates as well.
`benchmarks/coverage.py` simulates how often these intervals cover, and how wide they are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flatlab.stats.verdict import TAIL, Verdict

Array = NDArray[np.float64]
Strata = NDArray[np.int64]


def strata_of(labels: ArrayLike, fewest: int = 2) -> Strata:
    """Strata by number, from a label per unit: (units).

    Labels that fewer units have form a stratum together, since the variance in a stratum of one is
    not known; if these units are too few as well, they join the smallest other stratum.
    """
    _, strata, sizes = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
    few = sizes[strata] < fewest
    if few.sum() < fewest and not few.all():
        sizes = np.where(sizes < fewest, sizes.max() + 1, sizes)
        strata = np.where(few, sizes.argmin(), strata)
    else:
        strata = np.where(few, len(sizes), strata)
    return strata.astype(np.int64).reshape(-1)


def spread(
    jackknife_values: Array, strata: Strata, unit_variance_factor: bool
) -> tuple[Array, Array]:
    """Standard errors and degrees of freedom (...), from the values without each unit (units, ...).

    unit_variance_factor: whether f is 1, for correlations.  NaN for a stratum of one unit.
    """
    total, squares = np.zeros((2, *jackknife_values.shape[1:]))
    for stratum in np.unique(strata):
        part = jackknife_values[strata == stratum]
        n = len(part)
        with np.errstate(invalid="ignore"):  # of a correlation of 1, which is infinite on z
            variance = ((part - part.mean(axis=0)) ** 2).sum(axis=0)
        if n == 1:
            variance = np.full_like(variance, np.nan)
        elif not unit_variance_factor:
            variance *= (n - 1) / n
        total += variance
        squares += variance**2 / max(n - 1, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = np.where(total > 0, total**2 / squares, np.inf)
    return np.sqrt(total), freedom


def limits(
    point: Array,
    jackknife_values: Array,
    strata: Strata,
    unit_variance_factor: bool,
    tail: float = TAIL,
) -> tuple[Array, Array]:
    """The ends of the intervals of many statistics: (...), jackknife_values (units, ...).

    tail: the probability of missing on each side; 95 % intervals have 2.5 %.
    """
    from scipy.special import stdtrit  # costs half a second, which planning does without

    error, freedom = spread(jackknife_values, strata, unit_variance_factor)
    half = stdtrit(freedom, 1 - tail) * error
    return point - half, point + half


def fisher(correlation: ArrayLike, pairs: float = np.inf) -> Array:
    """Fisher's z of correlations.

    pairs: of Kendall's tau, the number of pairs it is the mean of: tau is shrunk by one pair that
    counts zero, so that perfect order has a finite z.
    """
    values = np.asarray(correlation, dtype=float)
    with np.errstate(divide="ignore"):
        return np.arctanh(values if np.isinf(pairs) else values * pairs / (pairs + 1))


@dataclass(frozen=True, eq=False)
class Estimate:
    """A number with its interval, and what is needed to compare it with others of the same units.

    name: as in a claim, "rho(mls, nmls)".
    point: the number, Fisher's z of it if `on_z`.
    jackknife_values: `point` without each unit, (units).
    strata: of the units, (units).
    n: the number of networks, or of whatever else is counted.
    on_z: whether it is a correlation, on Fisher's scale.
    stretch: what a correlation is that is 1 on z: of Kendall's tau, whose z is of a shrunk one.
    unit_variance_factor: as for `spread`.
    estimand: which of several numbers called `name` it is.
    alternatives: the others, by their estimands.
    reason: why there is no number.
    instability: why no verdict may rest on it.
    """

    name: str
    point: float
    jackknife_values: Array
    strata: Strata
    n: int
    on_z: bool = False
    stretch: float = 1.0
    unit_variance_factor: bool = False
    estimand: str = ""
    alternatives: Mapping[str, "Estimate"] = field(default_factory=dict)
    reason: str = ""
    instability: str = ""

    @property
    def value(self) -> float:
        """The number itself."""
        return float(np.tanh(self.point)) * self.stretch if self.on_z else self.point

    def interval(self) -> tuple[float, float]:
        """The ends of the 95 % interval; NaN if it is not defined."""
        ends = limits(
            np.array(self.point), self.jackknife_values, self.strata, self.unit_variance_factor
        )
        low, high = np.clip(np.tanh(ends) * self.stretch, -1, 1) if self.on_z else ends
        return float(low), float(high)

    @property
    def numbers(self) -> tuple[float, float, float, int]:
        """The number, the ends of its interval and `n`: what a figure shows."""
        return (self.value, *self.interval(), self.n)

    def labelled(self, name: str) -> "Estimate":
        """The same by another name."""
        return replace(self, name=name)

    def __neg__(self) -> "Estimate":
        return replace(
            self,
            name=f"-{self.name}",
            point=-self.point,
            jackknife_values=-self.jackknife_values,
            alternatives={kind: -other for kind, other in self.alternatives.items()},
        )

    def __sub__(self, other: "Estimate") -> "Estimate":
        """The difference of estimates of the same units; of correlations, that of Fisher's z."""
        z, plus = "z " if self.on_z else "", other.name.startswith("-")
        name = f"{z}{self.name} {'+' if plus else '-'} {z}{other.name[plus:]}"
        if self.reason or other.reason:
            return undefined(name, self.reason or other.reason)
        if len(self.strata) != len(other.strata) or self.on_z != other.on_z:
            raise ValueError(f"{name}: these are not estimates of the same kind and units")
        shared = [kind for kind in self.alternatives if kind in other.alternatives]
        return replace(
            self,
            name=name,
            point=self.point - other.point,
            jackknife_values=self.jackknife_values - other.jackknife_values,
            on_z=False,
            alternatives={
                kind: self.alternatives[kind] - other.alternatives[kind] for kind in shared
            },
            instability=self.instability or other.instability,
        )

    def __gt__(self, other: "Estimate | float") -> Verdict:
        """The claim that this exceeds another estimate or a number."""
        return self._compared_with(other, greater=True)

    def __lt__(self, other: "Estimate | float") -> Verdict:
        """The claim that this is below another estimate or a number."""
        return self._compared_with(other, greater=False)

    def within(self, limit: float) -> Verdict:
        """The claim that its absolute value is below a number."""
        return (self < limit) & (self > -limit)

    def _compared_with(self, other: "Estimate | float", greater: bool) -> Verdict:
        if isinstance(other, Estimate):
            return (self - other)._compared_with(0.0, greater)
        entry = {**self.report(), "claim": f"{'>' if greater else '<'} {other:g}"}
        if not (isfinite(self.point) and isfinite(entry["low"]) and isfinite(entry["high"])):
            reason = self.reason or f"{self.name} is not defined for these runs"
            return Verdict("not run", (reason,), [entry])
        if self.instability:
            return Verdict("undecided", (self.instability,), [entry])
        limit = float(fisher(np.clip(other, -1, 1))) if self.on_z else other
        above = self._probability_above(limit)
        holds, fails = (above, 1 - above) if greater else (1 - above, above)
        return Verdict.tested(holds, fails, [entry])

    def _probability_above(self, limit: float) -> float:
        """The one-sided p-value of the claim that the number is above a limit."""
        from scipy.special import stdtr

        error, freedom = spread(self.jackknife_values, self.strata, self.unit_variance_factor)
        distance = limit - self.point
        if error == 0:
            return 0.5 + 0.5 * float(np.sign(distance))
        return float(stdtr(freedom, distance / error))

    def report(self) -> dict[str, Any]:
        """The number, its interval and how many runs it is of, as an entry of the evidence."""
        low, high = self.interval()
        entry: dict[str, Any] = {"quantity": self.name, "value": self.value}
        entry |= {"low": low, "high": high, "n": self.n}
        if self.estimand:
            entry["estimand"] = self.estimand
        if self.alternatives:
            others = {kind: other.report() for kind, other in self.alternatives.items()}
            kept = ("value", "low", "high", "n")
            entry["beside"] = {k: {name: e[name] for name in kept} for k, e in others.items()}
        return entry


def over_seeds(
    name: str, statistic: Callable[..., ArrayLike], *columns: Array, on_z: bool = False
) -> Estimate:
    """A statistic of means over the seeds of one setting.

    columns: (seeds, ...) each.  statistic: takes their means (w, ...), a row for all seeds and one
    without each of them, and returns (w).  on_z: what it returns is Fisher's z. Estimates of the
    same seeds may be subtracted.
    """
    seeds = len(columns[0])
    keep = np.vstack([np.ones(seeds), 1 - np.eye(seeds)])
    rows = keep / np.maximum(keep.sum(axis=1, keepdims=True), 1)
    values = np.asarray(statistic(*(np.tensordot(rows, column, 1) for column in columns)), float)
    strata = np.zeros(seeds, np.int64)
    return Estimate(name, float(values[0]), values[1:], strata, seeds, on_z=on_z)


def undefined(name: str, reason: str) -> Estimate:
    """An estimate without a number: every claim about it is `not run` for this reason."""
    return Estimate(name, np.nan, np.full(1, np.nan), np.zeros(1, np.int64), 0, reason=reason)
