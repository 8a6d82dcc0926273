"""Kendall's tau-a of all pairs of quantities, over chosen pairs of networks, with intervals.

    tau(x, y) = mean over pairs of networks (i, j) of sign(x_j - x_i) sign(y_j - y_i)

Over all pairs it is the usual coefficient. Over the pairs of one setting it is what seeds alone do;
over pairs of settings that differ in one factor, the coefficient of that factor of Jiang et al.
(2020), "Fantastic generalization measures and where to find them", Eq. 7, each pair of networks
counted once. Intervals are the jackknife over the seeds of each setting on Fisher's z, as in
`estimate`; tau is shrunk by one pair that counts zero, so that perfect order has a finite z. The
networks that remain of a setting are not given more weight when one is left out, so that f is
n / (n - 1): exact for what a network contributes alone, whatever its partners. A pool, of which all
networks vary by chance, is one stratum, with the usual f = (n - 1) / n.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flatlab.stats.estimate import Array, Estimate, fisher, limits, strata_of, undefined
from flatlab.stats.verdict import LEVEL, TAIL

FEWEST_INSIDE = 3
"""The fewest networks of a setting that differ in what each contributes to the setting's pairs."""

ROUNDING = 1e-12
"""Two values tie if their relative difference is at most this. Gaps of accuracies and errors, for
example, are the same differences, rounded in other ways."""

Pairs = NDArray[np.bool_]
"""Which pairs of networks count: (networks, networks), symmetric."""


def pairs_of(same: ArrayLike, different: ArrayLike | None = None) -> Pairs:
    """Pairs of networks that share a label and, if given, differ in another: (networks) each."""
    labels = np.asarray(same)
    levels = np.arange(len(labels)) if different is None else np.asarray(different)
    return (labels[:, None] == labels) & (levels[:, None] != levels)


class Ranks:
    """Rank correlations over some pairs of networks.

    columns: quantity -> (networks).
    settings: (networks), which are fixed and whose seeds vary by chance; None for a pool, of which
        every network varies by chance.
    pairs: those that count; all if None.

    A pair in which a value is not finite is left out of what uses that quantity.
    """

    def __init__(
        self,
        columns: Mapping[str, Array],
        settings: Sequence[str] | None,
        pairs: Pairs | None = None,
    ) -> None:
        self.names, self.pooled = list(columns), settings is None
        values = np.array([columns[name] for name in self.names], dtype=float)
        values = values.reshape(len(self.names), -1 if settings is None else len(settings))
        self.finite = np.isfinite(values)
        values = np.where(self.finite, values, 0)
        labels = np.zeros(values.shape[1]) if settings is None else np.asarray(settings)
        chosen = pairs_of(np.zeros(len(labels))) if pairs is None else pairs
        known = (self.finite[:, :, None] & self.finite[:, None, :] & chosen).astype(float)
        signs = _signs(values[:, :, None], values[:, None, :]) * known
        inside = not (chosen & ~pairs_of(labels)).any()
        self.strata = strata_of(labels, FEWEST_INSIDE if inside else 2)
        self._agree, self._count = map(_products, (signs, known))  # (networks, q, q) each

    @functools.cached_property
    def taus(self) -> Array:
        """tau (1 + networks, quantities, quantities): over all networks, then without each.

        NaN where no pair has both quantities; the diagonal is 1 less the share of ties.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            return _and_without(self._agree) / _and_without(self._count)

    @functools.cached_property
    def _on_z(self) -> Array:
        return self._z_of(self.taus, _and_without(self._count))

    def _z_of(self, taus: Array, ordered_pairs: Array) -> Array:
        pairs = ordered_pairs / 2
        return self._weighted(fisher(taus * pairs / (pairs + 1)))

    def _weighted(self, values: Array) -> Array:
        """Values (1 + networks, ...), those without a network farther from the first: see f."""
        if self.pooled:
            return values
        sizes = np.bincount(self.strata)[self.strata]
        root = np.sqrt(sizes / np.maximum(sizes - 1, 1)).reshape(-1, *[1] * (values.ndim - 1))
        return np.concatenate([values[:1], values[0] + root * (values[1:] - values[0])])

    def tau(self, x: str, y: str) -> Estimate:
        """One coefficient with its interval."""
        a, b = (self.names.index(name) for name in (x, y))
        return self._estimate(f"tau({x}, {y})", self.taus[0, a, b], self._on_z[:, a, b], x, y)

    def partial(self, x: str, y: str, *adjusting: str) -> Estimate:
        """Kendall's partial tau, given other quantities: Pearson's, of the signs of the pairs.

        With one other, (tau_xy - tau_xg tau_yg) / sqrt((1 - tau_xg^2) (1 - tau_yg^2)) (Kendall
        1942). NaN if a quantity follows from the others.
        """
        places = [self.names.index(name) for name in (x, y, *adjusting)]
        name = f"tau({x}, {y} | {', '.join(adjusting)})"
        part = self.taus[:, places][:, :, places]
        if not np.isfinite(part).all() or np.linalg.cond(part).max() > 1 / np.finfo(float).eps:
            return undefined(name, f"{name} is not defined for these networks")
        inverse = np.linalg.inv(part)
        partial = -inverse[:, 0, 1] / np.sqrt(inverse[:, 0, 0] * inverse[:, 1, 1])
        pairs = _and_without(self._count)[:, places[0], places[1]]
        return self._estimate(name, partial[0], self._z_of(partial, pairs), x, y, *adjusting)

    def effective_rank(self) -> Estimate:
        """1 over the mean squared tau of all with all: of how many quantities they seem to consist.

        The participation ratio (sum of the eigenvalues)^2 / sum of their squares of the matrix of
        coefficients: 1 if all quantities agree in every pair, their number if all are independent.
        Quantities that are not in every pair are left out.
        """
        name = "effective rank"
        whole = np.isfinite(self.taus).all(axis=(0, 2)) & self.finite.all(axis=1)
        if not whole.any():
            return undefined(name, f"{name}: no quantity is known of all networks")
        name = f"{name} of {whole.sum()}"
        taus = self.taus[:, whole][:, :, whole]
        size = np.sqrt(np.einsum("nqq->nq", taus))
        with np.errstate(invalid="ignore", divide="ignore"):
            squares = (taus / (size[:, :, None] * size[:, None, :])) ** 2
        ranks = self._weighted(whole.sum() ** 2 / squares.sum(axis=(1, 2)))
        n = self.finite.shape[1]
        return Estimate(name, float(ranks[0]), ranks[1:], self.strata, n, unit_variance_factor=True)

    def matrix(self, tail: float = TAIL) -> tuple[Array, Array, Array]:
        """Value, low and high of all pairs of quantities: (quantities, quantities) each.

        tail: the probability of missing on each side; `simultaneous(m)` for m pairs at once.
        """
        one, many = self._on_z[0], self._on_z[1:]
        low, high = limits(one, many, self.strata, unit_variance_factor=True, tail=tail)
        with np.errstate(invalid="ignore"):
            stretch = np.where(one == 0, 1, self.taus[0] / np.tanh(one))
        return self.taus[0], *(np.clip(np.tanh(end) * stretch, -1, 1) for end in (low, high))

    def _estimate(self, name: str, tau: float, z: Array, *used: str) -> Estimate:
        whole = self.finite[[self.names.index(each) for each in used]].all(axis=0)
        n = int((whole & self._count.any(axis=(1, 2))).sum())
        if not np.isfinite(z[0]):
            return undefined(name, f"{name}: no pair of networks has both")
        how: dict[str, Any] = {"on_z": True, "unit_variance_factor": not self.pooled}
        how["stretch"] = float(tau) / np.tanh(z[0]) if z[0] else 1.0
        return Estimate(name, float(z[0]), z[1:], self.strata, n, **how)


def granulated(name: str, taus: Sequence[Estimate]) -> Estimate:
    """Psi of Jiang et al. (2020), Eq. 8: the mean over factors of a coefficient of each factor.

    taus: `Ranks.tau` over the pairs of each factor, of the same networks.
    """
    for tau in taus:
        if tau.reason:
            return undefined(name, tau.reason)
    points = fisher(np.mean([np.tanh(tau.point) for tau in taus]))
    jackknife_values = fisher(np.mean([np.tanh(tau.jackknife_values) for tau in taus], axis=0))
    strata, n = taus[0].strata, min(tau.n for tau in taus)
    stretch = np.mean([tau.value for tau in taus]) / np.tanh(points) if points else 1.0
    how: Any = {"on_z": True, "stretch": float(stretch), "unit_variance_factor": True}
    return Estimate(name, float(points), jackknife_values, strata, n, **how)


def sign_error(x: Array, y: Array, pairs: Pairs) -> float:
    """How often the order of two networks by x is not that by y: in [0, 1], 1/2 by chance.

    x: a measure, y: an outcome, (networks) each. Pairs that tie in y are left out, those that tie
    in x count half; networks of which one is not finite are left out, as by `Ranks`. Over the
    pairs of one environment (two values of one factor) it is the sign error of Dziugaite et al.
    (2020), "In search of robust measures of generalization", Sec. 4, all pairs with one weight;
    the largest over the environments says how robust a measure is.
    """
    known = np.isfinite(x) & np.isfinite(y)
    i, j = np.nonzero(np.triu(pairs) & known[:, None] & known)
    by_x, by_y = _signs(x[i], x[j]), _signs(y[i], y[j])
    agree = (by_x * by_y)[by_y != 0]
    return float((1 - agree).mean() / 2) if len(agree) else float("nan")


def simultaneous(intervals: int) -> float:
    """The tail of each of so many intervals that hold together with 95 %: Sidak (1967).

    Exact for independent estimates, and conservative for normal ones of whatever correlation.
    """
    return float(-np.expm1(np.log(LEVEL) / intervals) / 2)


def _signs(a: Array, b: Array) -> Array:
    """The sign of a - b, 0 for ties."""
    difference = a - b
    tied = np.abs(difference) <= ROUNDING * np.maximum(np.abs(a), np.abs(b))
    return np.where(tied, 0.0, np.sign(difference))


def _products(array: Array) -> Array:
    """(quantities, networks, networks) -> sums over the second network: (networks, q, q)."""
    rows = np.ascontiguousarray(array.transpose(1, 0, 2))
    products: Array = rows @ rows.transpose(0, 2, 1)
    return products


def _and_without(parts: Array) -> Array:
    """Sums over ordered pairs: of all networks, and without each. parts: (networks, ...)."""
    total = parts.sum(axis=0)
    return np.concatenate([total[None], total - 2 * parts])
