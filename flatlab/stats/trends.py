"""Trends: Kendall's tau-a, and statistics of means over seeds.

The curve of a setting is the mean over its seeds. A resample draws as many seeds with replacement;
few of these resamples differ (126 for five seeds), so that a statistic is computed once for each
different resample and not 10,000 times.
"""

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from flatlab.stats.bootstrap import RESAMPLES, Array, Estimate, resample


def over_seeds(
    name: str, statistic: Callable[..., Array], *columns: Array, resamples: int = RESAMPLES
) -> Estimate:
    """A statistic of means over the seeds of one setting, with its percentile bootstrap.

    columns: (seeds, ...) each.  statistic: takes their means (w, ...), one row for each resample,
    and returns (w). Estimates of the same seeds may be subtracted: their resamples are the same.
    """
    seeds = len(columns[0])
    weights, place = _different(seeds, resamples)
    rows = np.vstack([np.ones(seeds), weights]) / seeds
    means = (np.tensordot(rows, column, 1) for column in columns)
    values = np.asarray(statistic(*means), dtype=float)
    return Estimate(name, float(values[0]), values[1:][place], np.zeros(seeds, np.int64))


def mean(means: Array) -> Array:
    """The mean over seeds itself, as a statistic for `over_seeds`."""
    return means


@functools.lru_cache(maxsize=32)
def _different(seeds: int, resamples: int) -> tuple[Array, NDArray[np.intp]]:
    """The different resamples of this number of seeds, and which of them each resample is."""
    weights = resample(np.zeros(seeds, np.int64), resamples)
    rows, place = np.unique(weights, axis=0, return_inverse=True)
    return rows, place.reshape(-1)


def difference(name: str, larger: Array, smaller: Array, resamples: int = RESAMPLES) -> Estimate:
    """mean(larger) - mean(smaller): the seeds of two settings, each resampled on its own."""
    strata = np.repeat(np.arange(2), [len(larger), len(smaller)])
    share = np.concatenate([larger / len(larger), -smaller / len(smaller)])
    resampled = resample(strata, resamples) @ share
    return Estimate(name, float(larger.mean() - smaller.mean()), resampled, strata)


def median(name: str, values: Array) -> Estimate:
    """The median over runs (runs), with its percentile bootstrap."""
    runs = len(values)
    drawn = np.random.default_rng(0).integers(runs, size=(RESAMPLES, runs))
    many = np.median(values[drawn], axis=1)
    return Estimate(name, float(np.median(values)), many, np.zeros(runs, np.int64))


def tau(
    name: str, x: Array, y: Array, strata: NDArray[np.int64], resamples: int = RESAMPLES
) -> Estimate:
    """Kendall's tau-a over runs, mean over pairs of sign(x_j - x_i) sign(y_j - y_i), with BCa.

    Pairs with a tie count zero. x, y, strata: (runs).
    """
    agree = np.sign(x[:, None] - x) * np.sign(y[:, None] - y)

    def of(weights: Array) -> Array:
        drawn = weights.sum(axis=1)
        return np.einsum("wi,wi->w", weights @ agree, weights) / (drawn * (drawn - 1))

    value = of(np.ones((1, len(x))))[0]
    many, jackknife = of(resample(strata, resamples)), of(1 - np.eye(len(x)))
    return Estimate(name, float(value), many, strata, jackknife)


def tau_in_order(curves: Array) -> Array:
    """Kendall's tau-a between position and value, of each row of (w, n). Ties count zero.

    scipy has tau-b and tau-c of one curve; this is tau-a of all resamples at once.
    """
    n = curves.shape[1]
    lags = (np.sign(curves[:, lag:] - curves[:, :-lag]).sum(axis=1) for lag in range(1, n))
    return sum(lags, np.zeros(len(curves))) / (n * (n - 1) / 2)


def pearson(a: Array, b: Array) -> Array:
    """Pearson's correlation of each row of (w, n) with the same row; NaN where one is constant.

    numpy's corrcoef would compute the correlations of all rows with all rows.
    """
    (a, length_a), (b, length_b) = map(_centred, (a, b))
    return np.clip((a * b).sum(axis=1) / (length_a * length_b), -1, 1)


def _centred(curves: Array) -> tuple[Array, Array]:
    """Deviations of each row from its mean, and their length; NaN where the row is constant."""
    average = curves.mean(axis=1, keepdims=True)
    deviations = curves - average
    length = np.sqrt((deviations**2).sum(axis=1))
    # the rounding error that remains of a constant is not a variation
    return deviations, np.where(length > 1e-12 * np.abs(average[:, 0]), length, np.nan)
