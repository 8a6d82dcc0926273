"""Checkpoints weighted by the time that they stand for, against curves that are written out."""

import numpy as np
import pytest

from flatlab.stats.time_weights import correlation, shares


@pytest.mark.parametrize("by", ["iterations", "log"])
def test_shares_are_those_of_the_nearest_checkpoint_at_every_moment(by):
    steps = np.array([1, 3, 10, 30, 100, 130])
    times = np.log(steps) if by == "log" else steps
    moments = np.linspace(times[0], times[-1], 200_001)
    nearest = np.abs(moments[:, None] - times).argmin(1)
    expected = np.bincount(nearest) / len(moments)
    assert shares(steps, by) == pytest.approx(expected, abs=1e-4)


def test_equal_distances_give_equal_weights_but_for_the_ends():
    assert shares([0, 10, 20, 30], "iterations") == pytest.approx([1 / 6, 1 / 3, 1 / 3, 1 / 6])
    assert shares([0, 1, 10, 100], "log") == pytest.approx([0, 1 / 4, 1 / 2, 1 / 4])


def test_a_weight_is_a_number_of_repetitions():
    generator = np.random.default_rng(0)
    a, b = generator.standard_normal((2, 5))
    times = np.array([1, 4, 2, 3, 1])
    expected = np.corrcoef(np.repeat(a, times), np.repeat(b, times))[0, 1]
    assert correlation(a, b, times / times.sum()) == pytest.approx(expected)
    assert correlation(a, b, np.ones(5)) == pytest.approx(np.corrcoef(a, b)[0, 1])
    assert np.isnan(correlation(a, np.ones(5), np.ones(5)))
