"""Means, contrasts, taus and medians."""

import itertools

import numpy as np
import pytest
import scipy.stats

from flatlab.stats import Correlations, over_seeds, trends, undefined
from flatlab.stats.estimate import fisher, spread, strata_of
from flatlab.stats.time_weights import correlation, shares
from flatlab.stats.trends import contrast, difference, mean, pearson, rise, tau_in_order
from tests.stats.samples import student


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("aabbb", [{0, 1}, {2, 3, 4}]),
        ("abbccc", [{0, 1, 2}, {3, 4, 5}]),  # a single one joins the smallest
        ("abccc", [{0, 1}, {2, 3, 4}]),  # singles form a stratum
        ("abc", [{0, 1, 2}]),
        ("a", [{0}]),
        ("aab", [{0, 1, 2}]),
    ],
)
def test_single_units_share_a_stratum(labels, expected):
    strata = strata_of(list(labels))
    found = sorted(np.flatnonzero(strata == s).tolist() for s in np.unique(strata))
    assert [set(stratum) for stratum in found] == expected


def test_a_stratum_of_one_has_no_standard_error():
    error, _ = spread(np.array([1.0, 2.0, 3.0]), np.array([0, 0, 1]), unit_variance_factor=False)
    assert np.isnan(error)
    assert np.isnan(over_seeds("mean", mean, np.array([2.0])).interval()).all()
    assert np.isnan(difference("a - b", np.arange(5.0), np.array([2.0])).interval()).all()


@pytest.mark.parametrize("seeds", [2, 3, 5, 20])
def test_the_interval_of_a_mean_is_students(seeds):
    sample = np.random.default_rng(8).exponential(size=seeds)
    ours = over_seeds("mean", mean, sample)
    theirs = scipy.stats.ttest_1samp(sample, 0.3)
    assert ours.value == pytest.approx(sample.mean())
    assert ours.interval() == pytest.approx(tuple(theirs.confidence_interval()), rel=1e-9)
    assert (ours > 0.3).p == pytest.approx(theirs.pvalue, rel=1e-8)


@pytest.mark.parametrize("sizes", [(5, 5), (9, 4), (2, 20)])
def test_the_interval_of_a_difference_of_means_is_welchs(sizes):
    generator = np.random.default_rng(9)
    a, b = generator.normal(3, 4, size=sizes[0]), generator.normal(size=sizes[1])
    theirs = scipy.stats.ttest_ind(a, b, equal_var=False)
    ours = difference("a - b", a, b)
    assert ours.value == pytest.approx(a.mean() - b.mean())
    assert ours.interval() == pytest.approx(tuple(theirs.confidence_interval()), rel=1e-9)
    assert (ours > 0).p == pytest.approx(theirs.pvalue, rel=1e-8)


def test_a_statistic_of_means_is_computed_without_each_seed():
    a, b = np.random.default_rng(6).normal(size=(2, 5, 12)).cumsum(axis=2)
    ours = over_seeds("rho_t", lambda *curves: fisher(pearson(*curves)), a, b, on_z=True)
    kept = [np.arange(5) != i for i in range(5)]
    jackknife_values = [np.corrcoef(a[k].mean(0), b[k].mean(0))[0, 1] for k in kept]
    assert ours.value == pytest.approx(np.corrcoef(a.mean(0), b.mean(0))[0, 1])
    assert ours.jackknife_values == pytest.approx(np.arctanh(jackknife_values))
    ends = student(ours.point, ours.jackknife_values, np.zeros(5), unit_variance_factor=False)
    assert ours.interval() == pytest.approx(np.tanh(ends))


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_a_contrast_and_the_rise_are_those_of_loops(count):
    """The rise is the mean difference over all pairs of groups, as tau is the mean of its sign."""
    generator = np.random.default_rng(12)
    groups = [generator.normal(k, k + 1, size=k + 4) for k in range(count)]
    ours = rise("rise", groups)
    pairs = list(itertools.combinations(groups, 2))
    assert ours.value == pytest.approx(np.mean([b.mean() - a.mean() for a, b in pairs]))

    def without(index, i):
        return [np.delete(g, i) if k == index else g for k, g in enumerate(groups)]

    jackknife_values = [
        rise("rise", without(k, i)).value
        for k, group in enumerate(groups)
        for i in range(len(group))
    ]
    assert ours.jackknife_values == pytest.approx(jackknife_values)
    weights = (2 * np.arange(count) - count + 1) * 2 / (count * (count - 1))
    assert trends.over_pairs(count) == pytest.approx(weights)
    errors = [w**2 * g.var(ddof=1) / len(g) for w, g in zip(weights, groups, strict=True)]
    pieces = (e**2 / (len(g) - 1) for e, g in zip(errors, groups, strict=True))
    freedom = sum(errors) ** 2 / sum(pieces)
    half = scipy.stats.t.ppf(0.975, freedom) * np.sqrt(sum(errors))
    assert ours.interval() == pytest.approx((ours.value - half, ours.value + half))
    assert contrast("w", groups, list(weights)).interval() == pytest.approx(ours.interval())


def brute_tau(x, y):
    """Kendall's tau-a by its definition."""
    pairs = itertools.combinations(range(len(x)), 2)
    return float(np.mean([np.sign(x[j] - x[i]) * np.sign(y[j] - y[i]) for i, j in pairs]))


DRAWN = np.random.default_rng(1)


@pytest.mark.parametrize(
    "curves",
    [
        *(DRAWN.normal(size=(7, length)) for length in (2, 3, 8, 61)),
        *(DRAWN.integers(values, size=(9, 33)).astype(float) for values in (1, 2, 3, 10, 64)),
    ],
)
def test_the_tau_of_a_curve_is_that_of_a_loop_in_which_a_tie_counts_zero(curves):
    expected = [brute_tau(np.arange(len(curve)), curve) for curve in curves]
    assert tau_in_order(curves) == pytest.approx(expected, abs=1e-12)


def test_curves_correlate_as_numpy_says():
    a, b = np.random.default_rng(10).normal(size=(2, 4, 15))
    expected = [np.corrcoef(*rows)[0, 1] for rows in zip(a, b, strict=True)]
    assert pearson(a, b) == pytest.approx(expected)
    assert np.isnan(pearson(a, np.full((4, 15), 0.1))).all()


def test_a_median_below_a_limit_is_the_sign_test():
    values = np.random.default_rng(2).normal(size=23)
    for limit in (-1.0, -0.2, 0.1, 0.9, 5.0):
        verdict = trends.median_below("q", values, limit)
        below = int((values < limit).sum())
        for p, side in ((verdict.holds, "greater"), (verdict.fails, "less")):
            expected = scipy.stats.binomtest(below, 23, 0.5, alternative=side).pvalue
            assert p == pytest.approx(expected)
    entry = verdict.evidence[0]
    theirs = scipy.stats.quantile_test(values, p=0.5).confidence_interval(0.95)
    assert (entry["low"], entry["high"]) == (theirs.low, theirs.high)


def test_of_means_it_is_the_contrast_of_their_seeds():
    generator, weights = np.random.default_rng(0), [0.5, -2.0, 1.5]
    parts = [k + (1 + k) * generator.normal(size=n) for k, n in enumerate((5, 8, 20))]
    means = [over_seeds("", mean, part) for part in parts]
    found, expected = trends.contrast_of("", means, weights), contrast("", parts, weights)
    assert found.n == expected.n == 33
    assert found.point == pytest.approx(expected.point)
    assert found.interval() == pytest.approx(expected.interval())


def test_of_correlations_it_is_that_of_fishers_z_and_the_variances_add():
    generator = np.random.default_rng(1)
    rhos = []
    for seeds in (400, 500):
        x, y = generator.normal(size=(2, seeds))
        rhos.append(Correlations({"x": x, "y": x + y}, ["a", "b"] * (seeds // 2)).rho("x", "y"))
    found = trends.contrast_of("", rhos, [-1, 1])
    assert not found.on_z
    assert found.value == pytest.approx(rhos[1].point - rhos[0].point)
    halves = [np.diff(np.arctanh(rho.interval()))[0] / 2 for rho in rhos]
    (low, high) = found.interval()
    assert (high - low) / 2 == pytest.approx(np.hypot(*halves), rel=0.01)


def test_what_a_part_lacks_the_sum_lacks():
    whole = trends.contrast_of(
        "sum", [over_seeds("", mean, np.arange(5.0)), undefined("", "why")], [1, 1]
    )
    assert whole.reason == "why"
    assert (whole > 0).outcome == "not run"


@pytest.mark.parametrize("by", ["iterations", "log"])
@pytest.mark.parametrize("steps", [[1, 3, 10, 30, 100, 130], [0, 1, 10, 100], [0, 10, 20, 30]])
def test_shares_are_those_of_the_nearest_checkpoint_at_every_moment(steps, by):
    """Step 0 has no place on a logarithmic axis, and no share."""
    counted = np.array([step for step in steps if step > 0 or by == "iterations"])
    times = np.log(counted) if by == "log" else counted
    moments = np.linspace(times[0], times[-1], 200_001)
    nearest = np.abs(moments[:, None] - times).argmin(1)
    expected = [0] * (len(steps) - len(counted)) + [*np.bincount(nearest) / len(moments)]
    assert shares(steps, by) == pytest.approx(expected, abs=1e-4)


def test_a_weight_is_a_number_of_repetitions():
    generator = np.random.default_rng(0)
    a, b = generator.standard_normal((2, 5))
    times = np.array([1, 4, 2, 3, 1])
    expected = np.corrcoef(np.repeat(a, times), np.repeat(b, times))[0, 1]
    assert correlation(a, b, times / times.sum()) == pytest.approx(expected)
    assert correlation(a, b, np.ones(5)) == pytest.approx(np.corrcoef(a, b)[0, 1])
    assert np.isnan(correlation(a, np.ones(5), np.ones(5)))
