"""Trends: Kendall's tau-a, and statistics of means over seeds.

The curve of a setting is the mean over its seeds. A resample draws as many seeds with replacement;
of n seeds there are few different resamples (126 of five), so that a statistic is computed once
for each of them and not 10,000 times.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatlab.stats.bootstrap import RESAMPLES, Array, Estimate, leave_one_out, resample


def over_seeds(
    name: str,
    statistic: Callable[..., Array],
    *columns: Array,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """A statistic of means over the seeds of one setting, with its percentile bootstrap.

    columns: (seeds, ...) each.  statistic: takes their means (w, ...), one row for each resample,
    and returns (w). Estimates of the same seeds may be subtracted: their resamples are the same.
    """
    seeds = len(columns[0])
    weights, place = _different(seeds, resamples, seed)
    rows = np.vstack([np.ones(seeds), weights]) / seeds
    flat = [np.reshape(column, (seeds, -1)) for column in columns]
    means = [
        (rows @ matrix).reshape(len(rows), *np.shape(column)[1:])
        for matrix, column in zip(flat, columns, strict=True)
    ]
    values = np.asarray(statistic(*means), dtype=float)
    return Estimate(name, float(values[0]), values[1:][place], np.zeros(seeds, np.int64))


@functools.lru_cache(maxsize=32)
def _different(seeds: int, resamples: int, seed: int) -> tuple[Array, NDArray[np.intp]]:
    """The different resamples of so many seeds, and which of them each resample is."""
    weights = resample(np.zeros(seeds, np.int64), resamples, seed)
    rows, place = np.unique(weights, axis=0, return_inverse=True)
    return rows, place.reshape(-1)


def difference(
    name: str, larger: Array, smaller: Array, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """mean(larger) - mean(smaller), of the seeds of two settings, resampled each by itself."""
    strata = np.repeat(np.arange(2), [len(larger), len(smaller)])
    share = np.concatenate([larger / len(larger), -smaller / len(smaller)])
    resampled = resample(strata, resamples, seed) @ share
    return Estimate(name, float(larger.mean() - smaller.mean()), resampled, strata)


def median(name: str, values: Array, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """The median over runs (runs), with its percentile bootstrap."""
    runs = len(values)
    drawn = np.random.default_rng(seed).integers(runs, size=(resamples, runs))
    many = np.median(values[drawn], axis=1)
    return Estimate(name, float(np.median(values)), many, np.zeros(runs, np.int64))


def tau(
    name: str,
    x: Array,
    y: Array,
    strata: NDArray[np.int64],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """Kendall's tau-a over runs, mean over pairs of sign(x_j - x_i) sign(y_j - y_i), with BCa.

    Pairs with a tie count zero. x, y, strata: (runs).
    """
    agree = np.sign(x[:, None] - x) * np.sign(y[:, None] - y)

    def of(weights: Array) -> Array:
        drawn = weights.sum(axis=1)
        return np.einsum("wi,wi->w", weights @ agree, weights) / (drawn * (drawn - 1))

    value = of(np.ones((1, len(x))))[0]
    many, jackknife = of(resample(strata, resamples, seed)), of(leave_one_out(len(x)))
    return Estimate(name, float(value), many, strata, jackknife)


def tau_in_order(curves: Array) -> Array:
    """Kendall's tau-a between position and value, of each row of (w, n); O(n log n).

    Each pair is counted at the highest bit in which the ranks of its values differ: among values
    with the same higher bits, sum over i < j of (b_j - b_i) is sum of b (2 p - m + 1), where p is
    the place of a value among these m.
    """
    from scipy.stats import rankdata  # takes most of a second to load, and few claims need it

    rows, n = curves.shape
    kind = "int16" if n < 2**14 else "int64"  # short numbers are sorted by radix, much faster
    rank = (rankdata(curves, method="dense", axis=1) - 1).astype(kind)
    place = np.arange(n, dtype=np.int32)
    total = np.zeros(rows)
    for bit in range(int(rank.max()).bit_length()):
        order = np.argsort(rank >> (bit + 1), axis=1, kind="stable")
        ordered = np.take_along_axis(rank, order, axis=1)
        changes = np.diff(ordered >> (bit + 1), axis=1) != 0
        edge = np.ones((rows, 1), dtype=bool)
        begin = np.maximum.accumulate(np.where(np.hstack([edge, changes]), place, 0), axis=1)
        ends = np.where(np.hstack([changes, edge]), place + 1, np.int32(n))
        end = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
        total += ((ordered >> bit & 1) * (2 * place - begin - end + 1)).sum(axis=1)
    return total / (n * (n - 1) / 2)


def pearson(a: Array, b: Array) -> Array:
    """Pearson's correlation of each row of (w, n) with the same row; NaN where one is constant."""
    deviations, scale = [], np.ones(len(a))
    for curves in (a, b):
        mean = curves.mean(axis=1, keepdims=True)
        deviations.append(curves - mean)
        length = np.sqrt((deviations[-1] ** 2).sum(axis=1))
        # what is left of a constant after rounding is not a variation
        scale = scale * np.where(length > 1e-12 * np.abs(mean[:, 0]), length, np.nan)
    return np.clip((deviations[0] * deviations[1]).sum(axis=1) / scale, -1, 1)


def slope(times: NDArray[Any], curves: Array) -> Array:
    """The slope of the least-squares line through each row of (w, n)."""
    t = times - np.mean(times)
    return curves @ (t / (t @ t))
