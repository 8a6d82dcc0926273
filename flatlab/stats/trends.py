"""Trends: Kendall's tau-a, correlations of curves, and differences of means."""

import numpy as np

from flatlab.stats.estimate import Array, Estimate, over_seeds, undefined
from flatlab.stats.verdict import TAIL, Verdict


def mean(means: Array) -> Array:
    """The mean over seeds itself, as a statistic for `over_seeds`."""
    return means


def difference(name: str, larger: Array, smaller: Array) -> Estimate:
    """mean(larger) - mean(smaller): the seeds of two settings, with Welch's interval."""
    return contrast(name, [smaller, larger], [-1, 1])


def contrast(name: str, groups: list[Array], weights: list[float]) -> Estimate:
    """A weighted sum of the means of settings, (seeds) each, with the interval of Welch."""
    return contrast_of(name, [over_seeds(name, mean, group) for group in groups], weights)


def contrast_of(name: str, estimates: list[Estimate], weights: list[float]) -> Estimate:
    """A weighted sum of estimates, each of units of its own; of correlations, of Fisher's z."""
    for estimate in estimates:
        if estimate.reason:
            return undefined(name, estimate.reason)
    parts = [weight * e.point for weight, e in zip(weights, estimates, strict=True)]
    jackknife_values = [
        sum(parts) - part + weight * e.jackknife_values
        for part, weight, e in zip(parts, weights, estimates, strict=True)
    ]
    labels = [(k, stratum) for k, e in enumerate(estimates) for stratum in e.strata]
    strata = np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1)
    values, n = np.concatenate(jackknife_values), sum(e.n for e in estimates)
    factor = any(e.unit_variance_factor for e in estimates)
    return Estimate(name, float(sum(parts)), values, strata, n, unit_variance_factor=factor)


def rise(name: str, groups: list[Array]) -> Estimate:
    """How much larger the mean of a later setting is than that of an earlier one, over all pairs.

    groups: (seeds) each, in order. Like Kendall's tau it depends on the order of the settings
    alone; unlike tau it varies smoothly with the values, so that it has an interval.
    """
    return contrast(name, groups, over_pairs(len(groups)))


def over_pairs(n: int) -> list[float]:
    """Weights whose sum with n values is the mean of later minus earlier over all their pairs."""
    return [2 * (2 * i - n + 1) / (n * (n - 1)) for i in range(n)]


def median_below(name: str, values: Array, limit: float) -> Verdict:
    """The claim that the median over networks (n) is below a number: the sign test.

    The interval is that of the order statistics; fewer than 6 networks have an unbounded one.
    """
    from scipy.special import bdtr, bdtrc

    n, below = len(values), int((values < limit).sum())
    ordered = np.array([-np.inf, *np.sort(values), np.inf])
    rank = int((bdtr(np.arange(n), n, 0.5) <= TAIL).sum())
    ends = {"low": float(ordered[rank]), "high": float(ordered[n + 1 - rank])}
    entry = {"quantity": name, "value": float(np.median(values)), **ends, "n": n}
    holds = float(bdtrc(below - 1, n, 0.5)) if below else 1.0
    return Verdict.tested(holds, float(bdtr(below, n, 0.5)), [{**entry, "claim": f"< {limit:g}"}])


def tau_in_order(curves: Array) -> Array:
    """Kendall's tau-a between position and value, of each row of (w, n). Ties count zero.

    scipy has tau-b and tau-c of one curve; this is tau-a of all rows at once.
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
