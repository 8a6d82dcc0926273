"""macdonald2023 Theorems 4.5 and 4.6 on unit cubes, where each constant is known."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest

DRAWS = 4000
SMALLEST_PARTS = {d: math.pi ** (d / 2) / math.gamma(d / 2 + 1) / 2**d for d in (1, 2, 3, 4)}
"""At a corner, r^d times this of a ball of radius r <= 1 lies inside the cube: the least."""


def refuted(happened, probability, alternative="greater"):
    """Whether an event of at most (or just) this probability happens too often in these draws."""
    return binomtest(int(happened.sum()), DRAWS, probability, alternative).pvalue < 1e-4


@pytest.mark.parametrize("d", SMALLEST_PARTS)
@pytest.mark.parametrize("samples", [1, 5, 50])
def test_the_largest_jacobian_of_a_sample_is_near_the_supremum(d, samples):
    """f = |x|^2 / 2, with |J| = |x| up to sqrt(d), whose Lipschitz constant is 1; and a cone."""
    x = np.random.default_rng(0).random((DRAWS, samples, d))
    norms, cone = np.linalg.norm(x, axis=2), 1 - np.linalg.norm(1 - x, axis=2)
    for epsilon in (0.1, 0.3, 0.9):
        bound = (1 - SMALLEST_PARTS[d] * epsilon**d) ** samples
        assert not refuted(norms.max(1) <= math.sqrt(d) - epsilon, bound)
        # Eq. 6 holds with equality for a cone over a corner: no larger h would do.
        assert not refuted(cone.max(1) <= 1 - epsilon, bound, "two-sided")


@pytest.mark.parametrize("d", SMALLEST_PARTS)
@pytest.mark.parametrize("samples", [5, 50])
def test_jacobians_bound_the_gap_of_a_sample(d, samples):
    """C' = 2 on cubes in any dimension, for a linear f (whose J is constant) and for |x|^2 / 2."""
    x = np.random.default_rng(1).random((DRAWS, samples, d))
    slope = np.arange(1.0, d + 1)
    linear = np.abs((x @ slope).mean(1) - slope.sum() / 2)
    square = np.abs((x**2).sum(2).mean(1) / 2 - d / 6)
    largest = np.linalg.norm(x, axis=2).max(1)
    for epsilon in (0.05, 0.15, 0.5):
        bound = 2 * math.exp(-2 * samples * (epsilon / np.linalg.norm(slope)) ** 2)
        assert not refuted(linear > epsilon, min(bound, 1))
        delta = 0.5
        missed = (1 - SMALLEST_PARTS[d] * delta**d) ** samples
        bounds = missed + 2 * np.exp(-2 * samples * (epsilon / (largest + delta)) ** 2)
        assert not refuted(square > epsilon, min(bounds.mean(), 1))
    assert refuted(linear > 0.05, 0.01)  # the bounds are not met because nothing happens
