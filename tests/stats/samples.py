"""Columns of numbers with known correlations, and intervals by hand."""

import numpy as np
import scipy.stats

from flatlab.stats import Correlations

SIZES = [12, 20, 8]
SETTINGS = np.repeat(["a", "b", "c"], SIZES)
LOSS = np.random.default_rng(17).exponential(size=40)


def columns(seed=0):
    """Quantities that differ between settings and vary together within them."""
    generator = np.random.default_rng(seed)
    shift = np.repeat([0.0, 2.0, 3.0], SIZES)
    x = shift + generator.normal(size=40)
    y = 0.5 * x + LOSS + generator.normal(size=40)
    return {"x": x, "y": y, "z": -shift + generator.exponential(size=40)}


def correlations(data):
    return Correlations(data, SETTINGS, LOSS)


def student(point, jackknife_values, strata, unit_variance_factor):
    """The interval of the stratified jackknife, as in the docs, with loops."""
    parts = [jackknife_values[strata == s] for s in np.unique(strata)]
    factors = [1 if unit_variance_factor else (len(p) - 1) / len(p) for p in parts]
    variances = [
        f * sum((v - p.mean()) ** 2 for v in p) for f, p in zip(factors, parts, strict=True)
    ]
    squares = sum(v**2 / (len(p) - 1) for v, p in zip(variances, parts, strict=True))
    t = scipy.stats.t.ppf(0.975, sum(variances) ** 2 / squares)
    return [point + sign * t * np.sqrt(sum(variances)) for sign in (-1, 1)]
