"""Pearson correlations of all pairs of quantities: pooled, within and between settings, adjusted.

Five settings of twenty seeds each amount, when pooled, to little more than five points. The
correlation within settings is of deviations from the setting's mean, the one between settings of
the settings' means. The adjusted one is the partial correlation given one more quantity, such as
the training loss. All of them, for all pairs, come from the same covariances, without each unit.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flatlab.stats.estimate import Array, Estimate, fisher, limits, strata_of, undefined

Kind = Literal["pooled", "within", "between", "adjusted"]
KINDS: dict[Kind, str] = {
    "pooled": "over all networks",
    "within": "within settings",
    "between": "between settings",
    "adjusted": "adjusted for the training loss",
}
"""The kinds of correlations, and what they are called."""

FEWEST = 3
"""The fewest runs that have a correlation."""


class Correlations:
    """Correlations over the runs of a table.

    columns: quantity -> (runs).  settings: (runs), whose seeds are the units that vary by chance.
    adjusting: (runs), what the adjusted correlations are given.  clusters: (runs), such as the
    families of networks: then whole clusters are the units, and settings are not fixed. Runs with
    a value that is not finite are left out of every pair that uses it.
    """

    def __init__(
        self,
        columns: Mapping[str, NDArray[np.float64]],
        settings: Sequence[str],
        adjusting: ArrayLike | None = None,
        clusters: Sequence[str] | None = None,
    ) -> None:
        self.names = list(columns)
        self.values = np.column_stack([np.asarray(columns[n], dtype=float) for n in self.names])
        self.settings = np.unique(np.asarray(settings), return_inverse=True)[1].reshape(-1)
        self.adjusting = None if adjusting is None else np.asarray(adjusting, dtype=float)
        self.clusters = None if clusters is None else np.asarray(clusters)
        self._parts: dict[tuple[int, ...], _Part] = {}

    def rho(self, x: str, y: str, kind: Kind = "pooled") -> Estimate:
        """One correlation with its interval."""
        return self.rhos((x, y), kind=kind)[0]

    def rhos(self, *pairs: tuple[str, str], kind: Kind = "pooled") -> list[Estimate]:
        """Correlations to be compared, over the runs that have every quantity of these pairs."""
        used = tuple(sorted({self.names.index(name) for pair in pairs for name in pair}))
        estimates, part = [], self._part(*used)
        how: dict[str, Any] = {"on_z": True, "unit_variance_factor": True}
        n = len(part.values)
        for x, y in pairs:
            name = f"rho({x}, {y})"
            if n < FEWEST or (kind == "adjusted" and self.adjusting is None):
                reason = f"{name}: {n} runs have all the quantities that are needed"
                estimates.append(undefined(name, reason))
                continue
            a, b = (used.index(self.names.index(quantity)) for quantity in (x, y))
            one, many = np.split(fisher(part.matrices(kind)[:, a, b]), [1])
            values = float(one[0]), many, part.strata, n
            estimates.append(Estimate(name, *values, estimand=KINDS[kind], **how))
        return estimates

    def runs_used(self, x: str, y: str) -> int:
        """How many runs have both quantities."""
        return len(self._part(self.names.index(x), self.names.index(y)).values)

    def constant_share(self, x: str, y: str) -> float:
        """How much a correlation rests on a few runs: its being undefined, in runs drawn anew.

        The probability, at most, that one of the two quantities is the same in all of as many runs
        drawn with replacement from each setting.
        """
        part = self._part(self.names.index(x), self.names.index(y))
        settings = part.settings if self.clusters is None else np.zeros_like(part.settings)
        return sum(_constant(column, settings) for column in part.values.T)

    def matrix(self, kind: Kind) -> tuple[Array, Array, Array]:
        """Value, low and high of all pairs: (quantities, quantities).

        Quantities that are finite for all runs share one computation; pairs with any other
        quantity are computed one by one, each for the runs that have both.
        """
        count = len(self.names)
        results = np.full((3, count, count), np.nan)
        whole = np.isfinite(self.values).all(axis=0)
        groups = [tuple(np.flatnonzero(whole).tolist())] if whole.any() else []
        groups += [(i, j) for i in range(count) for j in range(i) if not (whole[i] and whole[j])]
        for group in groups:
            part = self._part(*group)
            if len(part.values) >= FEWEST and (kind != "adjusted" or self.adjusting is not None):
                one, many = np.split(fisher(part.matrices(kind)), [1])
                ends = limits(one[0], many, part.strata, unit_variance_factor=True)
                for result, values in zip(results, (one[0], *ends), strict=True):
                    result[np.ix_(group, group)] = np.tanh(values)
        for result in results:
            np.fill_diagonal(result, np.where(np.isnan(results[0].diagonal()), np.nan, 1))
        return results[0], results[1], results[2]

    def of_means(self) -> "Correlations":
        """Each cluster as one run, with the mean of its runs."""
        labels = sorted({*self.clusters}) if self.clusters is not None else []
        rows = np.stack([self.values[self.clusters == label].mean(axis=0) for label in labels])
        return Correlations(dict(zip(self.names, rows.T, strict=True)), labels, None, labels)

    def of_pairs(self, kind: Kind, pairs: Sequence[tuple[str, str]]) -> list[list[float]]:
        """Value, low and high of some pairs, as in `matrix`."""
        matrices = self.matrix(kind)
        places = [(self.names.index(x), self.names.index(y)) for x, y in pairs]
        return [[float(matrix[place]) for matrix in matrices] for place in places]

    def _part(self, *columns: int) -> "_Part":
        """The runs that have all of these quantities, and what they are adjusted for."""
        if columns not in self._parts:
            needed = self.values[:, columns]
            if self.adjusting is not None:
                needed = np.column_stack([needed, self.adjusting])
            rows = np.isfinite(needed).all(axis=1)
            clusters = None if self.clusters is None else self.clusters[rows]
            part = _Part(needed[rows], len(columns), self.settings[rows], clusters)
            self._parts[columns] = part
        return self._parts[columns]


class _Part:
    """Some runs of a table: their correlations with all of them and without each unit."""

    def __init__(
        self,
        values: Array,
        quantities: int,
        settings: NDArray[np.intp],
        clusters: NDArray[np.str_] | None,
    ) -> None:
        self.settings, self.quantities = settings, quantities
        self.values = values[:, :quantities]
        self.all_values = values
        if clusters is None:
            self.strata, units = strata_of(settings), np.arange(len(values))
        else:
            units = np.unique(clusters, return_inverse=True)[1].reshape(-1)
            self.strata = np.zeros(units.max(initial=-1) + 1, np.int64)
        without = units[None, :] != np.arange(len(self.strata))[:, None]
        self.weights = np.vstack([np.ones(len(values)), without])  # (1 + units, runs)

    def matrices(self, kind: Kind) -> Array:
        """Correlations (1 + units, quantities, quantities): first over all runs.

        NaN where a variance is zero; the diagonal is 1 less rounding and means nothing.
        """
        pooled, between = self._covariances
        covariance = {"within": pooled - between, "between": between}.get(kind, pooled)
        variance = np.einsum("wqq->wq", covariance)
        # the rounding error that remains of a constant is not a variance
        smallest = 1e-12 * len(self.values)
        deviation = np.sqrt(np.where(variance > smallest, variance, np.nan))
        rho = covariance / (deviation[:, :, None] * deviation[:, None, :])
        rho = np.clip(rho, -1, 1)
        if kind == "adjusted":
            adjusting = rho[:, :, -1]
            rest = np.sqrt(np.where(adjusting**2 < 1 - 1e-12, 1 - adjusting**2, np.nan))
            rho = rho - adjusting[:, :, None] * adjusting[:, None, :]
            rho = np.clip(rho / (rest[:, :, None] * rest[:, None, :]), -1, 1)
        return rho[:, : self.quantities, : self.quantities]

    @functools.cached_property
    def _covariances(self) -> tuple[Array, Array]:
        """Summed over runs, of all and of the settings' means: (1 + units, columns, columns)."""
        values, weights = self.all_values, self.weights
        scale = values.std(axis=0)
        values = (values - values.mean(axis=0)) / np.where(scale > 0, scale, 1)
        products = values[:, :, None] * values[:, None, :]
        count = weights.sum(axis=1)[:, None]
        mean = weights @ values / count
        pooled = np.tensordot(weights, products, 1)
        pooled -= count[:, :, None] * mean[:, :, None] * mean[:, None, :]
        between = np.zeros_like(pooled)
        for setting in np.unique(self.settings):
            part = weights * (self.settings == setting)
            size = part.sum(axis=1)[:, None]
            shift = part @ values / np.maximum(size, 1) - mean
            between += (size * shift)[:, :, None] * shift[:, None, :]
        return pooled, between


def _constant(column: Array, settings: NDArray[np.intp]) -> float:
    """The probability that runs drawn anew from each setting all have the same value."""
    share = np.ones(len(np.unique(column)))
    for setting in np.unique(settings):
        drawn = column[settings == setting]
        share_of_value = (drawn[:, None] == np.unique(column)).mean(axis=0)
        share *= share_of_value ** len(drawn)
    return float(share.sum())
