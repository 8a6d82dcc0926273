"""Checkpoints of a training, weighted by the time that each of them stands for.

A mean over checkpoints is one over the training only if each counts for the iterations up to
halfway to its neighbours, or for their logarithm: log-spaced checkpoints that count alike are the
second. The last one stands for the time up to itself. Checkpoints are no independent data;
intervals are over networks.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from flatlab.stats.estimate import Array

Weight = Literal["iterations", "log", "alike"]


def shares(iterations: ArrayLike, by: Weight) -> Array:
    """The share of the time that each checkpoint stands for: (checkpoints), in order.

    A logarithmic axis has no place for iteration 0, whose share of it is 0; "alike", all are equal.

    >>> shares(np.array([0, 100, 200, 400]), "iterations").tolist()
    [0.125, 0.25, 0.375, 0.25]
    >>> shares(np.array([0, 1, 10, 100]), "log").tolist()
    [0.0, 0.25, 0.5, 0.25]
    """
    times = np.asarray(iterations, float)
    known = np.ones(len(times), bool)
    if by == "alike":
        return known / len(times)
    if by == "log":
        known = times > 0
        times = np.log(times[known])
    between = (times[1:] + times[:-1]) / 2
    spans = np.diff(np.concatenate([times[:1], between, times[-1:]]))
    found = np.zeros(len(known))
    found[known] = spans / spans.sum()
    return found


def correlation(a: Array, b: Array, weights: Array) -> float:
    """Pearson's correlation of two curves (checkpoints) whose checkpoints have weights.

    NaN where one is constant.
    """
    weights = weights / weights.sum()
    a, b = (curve - weights @ curve for curve in (a, b))
    spreads = np.sqrt((weights @ a**2) * (weights @ b**2))
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.clip((weights @ (a * b)) / spreads, -1, 1))


def trend(values: Array, weights: Array) -> float:
    """Kendall's tau-a of a curve (checkpoints) and time: pairs count by the product of weights.

    >>> trend(np.array([1.0, 2.0, 0.0]), np.array([1.0, 1.0, 2.0]))
    -0.6
    """
    products = np.triu(np.outer(weights, weights), 1)
    return float((products * np.sign(values - values[:, None])).sum() / products.sum())


def spread(values: Array, weights: Array) -> Array:
    """The standard deviation of each of some curves: (..., checkpoints) -> (...)."""
    weights = weights / weights.sum()
    return np.sqrt(((values - (values @ weights)[..., None]) ** 2) @ weights)
