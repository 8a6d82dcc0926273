"""docs/errata.md: a numerical witness for each printed statement that cannot hold as it stands."""

import numpy as np
import pytest
from scipy.special import exp1


def test_sensitivity_to_a_power_above_two_is_not_bounded_by_that_of_sharpness():
    """chen2026 Eq. 6, whose sum is of powers k of norms: S is that for k = 2 alone."""
    norms = np.array([1.0, 3.0])
    sharpness = (norms**2).mean()
    assert (norms**4).mean() == 41 > sharpness**2 == 25
    assert norms.mean() == 2 < sharpness**0.5


def test_the_square_of_eq_53_is_of_the_parameter_alone():
    """chen2026: f = theta^2 at theta = 2, with a residual of 0.1."""
    theta, residual, second = 2.0, 0.1, 2.0
    left_out = theta**2 * residual * second
    assert left_out == pytest.approx(0.8)
    assert (residual * theta) ** 2 * second == pytest.approx(0.08)  # as printed, a bound of it


def test_a_vector_of_the_inputs_makes_eq_47_invariant_and_one_number_does_not():
    """chen2026 Prop. F.4: f = x_1 + 2 x_2 at (1, 1), whose first input is multiplied by ten."""
    x, gradient, scale = np.array([1.0, 1]), np.array([1.0, 2]), np.array([10.0, 1])
    cases = ((x, gradient), (scale * x, gradient / scale))
    best = [np.abs(at * slope).sum() for at, slope in cases]  # min over sigma', Cauchy-Schwarz
    one = [np.linalg.norm(at) * np.linalg.norm(slope) for at, slope in cases]  # sigma' cancels
    assert best == pytest.approx([3, 3])
    assert one == pytest.approx([3.16, 20.12], abs=0.01)


def test_the_constant_of_a_kernel_estimate_needs_its_bars_inside():
    """petzka2021 C_1, standard normal on a line: the derivative of what vanishes far out."""
    z = np.linspace(-12, 12, 40_001)
    second = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * (z**4 - 5 * z**2 + 2)
    assert abs(np.trapezoid(second, z)) < 1e-12
    assert np.trapezoid(np.abs(second), z) == pytest.approx(2.217, abs=1e-3)


def test_the_constant_of_the_variance_is_infinite_where_the_density_at_0_is_not_0():
    """petzka2021 C_2, standard normal in the plane: int p / |z|^2 beyond |z| = r."""
    beyond = np.array([exp1(r**2 / 2) / 2 for r in (1e-2, 1e-4, 1e-6, 1e-8)])
    assert np.diff(beyond) == pytest.approx([np.log(100)] * 3, rel=1e-3)


def test_a_kernel_spreads_a_coordinate_by_its_share_of_tau_2():
    """petzka2021 C_1: E |z + xi|^2 - |z|^2 is tau_2/(2m) times the Laplacian of |z|^2, 2m."""
    xi, z = np.random.default_rng(0).normal(size=(100_000, 6)), np.ones(6)
    tau = (xi**2).sum(axis=1).mean()
    rise = ((z + xi) ** 2).sum(axis=1).mean() - z @ z
    assert rise == pytest.approx(tau / (2 * 6) * (2 * 6), rel=0.01)


@pytest.mark.parametrize("samples", [10, 1_000])
def test_jacobians_of_batch_norm_agree_by_entry_and_not_in_norm(samples):
    """macdonald2023 Theorem A.1, one feature with unit variance."""
    y = np.random.default_rng(0).normal(size=samples)
    y = (y - y.mean()) / y.std()
    difference = (np.ones((samples, samples)) + np.outer(y, y)) / samples
    assert np.abs(difference).max() < 20 / samples
    assert np.linalg.norm(difference, 2) == pytest.approx(1)
