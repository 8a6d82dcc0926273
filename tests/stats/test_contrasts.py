"""Weighted sums of estimates that are of different units."""

import numpy as np
import pytest

from flatlab.stats import Correlations, over_seeds, undefined
from flatlab.stats.trends import contrast, contrast_of, mean, over_pairs, rise, tau_in_order


def groups(*sizes):
    generator = np.random.default_rng(0)
    return [k + (1 + k) * generator.normal(size=n) for k, n in enumerate(sizes)]


def test_of_means_it_is_the_contrast_of_their_seeds():
    parts, weights = groups(5, 8, 20), [0.5, -2.0, 1.5]
    means = [over_seeds("", mean, part) for part in parts]
    found, expected = contrast_of("", means, weights), contrast("", parts, weights)
    assert found.n == expected.n == 33
    assert found.point == pytest.approx(expected.point)
    assert found.interval() == pytest.approx(expected.interval())


def test_of_correlations_it_is_that_of_fishers_z_and_the_variances_add():
    generator = np.random.default_rng(1)
    rhos = []
    for seeds in (400, 500):
        x, y = generator.normal(size=(2, seeds))
        rhos.append(Correlations({"x": x, "y": x + y}, ["a", "b"] * (seeds // 2)).rho("x", "y"))
    found = contrast_of("", rhos, [-1, 1])
    assert not found.on_z
    assert found.value == pytest.approx(rhos[1].point - rhos[0].point)
    halves = [np.diff(np.arctanh(rho.interval()))[0] / 2 for rho in rhos]
    (low, high) = found.interval()
    assert (high - low) / 2 == pytest.approx(np.hypot(*halves), rel=0.01)


def test_what_a_part_lacks_the_sum_lacks():
    whole = contrast_of("sum", [over_seeds("", mean, np.arange(5.0)), undefined("", "why")], [1, 1])
    assert whole.reason == "why"
    assert (whole > 0).outcome == "not run"


@pytest.mark.parametrize("n", [2, 3, 8])
def test_weights_are_of_all_pairs(n):
    """Of ranks in order, the mean difference over pairs is (n + 1) / 3, where tau is 1."""
    ranks = np.arange(n, dtype=float)
    assert np.dot(over_pairs(n), ranks) == pytest.approx((n + 1) / 3)
    assert sum(over_pairs(n)) == pytest.approx(0)
    assert rise("", [np.full(5, rank) for rank in ranks]).value == pytest.approx((n + 1) / 3)
    assert tau_in_order(ranks[None])[0] == 1
