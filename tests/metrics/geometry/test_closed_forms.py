"""Geometry of networks for which every quantity has a closed form."""

import numpy as np
import pytest
import torch
from numpy.linalg import norm, svd
from torch import nn

from flatlab.metrics.geometry import QUANTITIES
from tests.metrics.geometry.closed_forms import linear, one_layer, spectral

EXACT = 1e-12


@pytest.mark.parametrize("bias", [False, True])
def test_one_linear_layer_has_its_closed_forms(bias, normal, measured):
    weight, x = normal(3, 5).numpy(), normal(20, 5, seed=1)
    constant = normal(3, seed=2).numpy() if bias else None
    expected = one_layer(weight, x.numpy(), constant)
    assert set(expected) == set(QUANTITIES)
    values = measured(linear(weight, biases=[constant] if bias else None), x)
    assert set(values) == set(expected)
    for name, value in expected.items():
        assert values[name] == pytest.approx(value, rel=EXACT), name


def test_without_a_bias_bounds_c_and_d_of_one_layer_are_equal(normal, measured):
    values = measured(linear(normal(3, 5).numpy()), normal(20, 5, seed=1))
    assert values["bound_c"] == pytest.approx(values["bound_d"], rel=EXACT)


def test_an_orthogonal_map_keeps_volume_and_uses_all_dimensions(normal, measured):
    orthogonal = np.linalg.qr(normal(4, 4).numpy())[0]
    values = measured(linear(orthogonal), normal(10, 4, seed=1))
    assert values["log_volume"] == pytest.approx(0, abs=EXACT)
    assert values["log_mean_volume"] == pytest.approx(0, abs=EXACT)
    assert values["local_dimension"] == pytest.approx(4, rel=EXACT)
    assert values["bound_a"] == pytest.approx(1, rel=EXACT)
    assert values["bound_b"] == pytest.approx(2, rel=EXACT)  # sqrt(4)


def test_two_linear_layers_have_their_closed_forms(normal, measured):
    first, second = normal(4, 5).numpy(), normal(3, 4, seed=1).numpy()
    x = normal(20, 5, seed=2)
    values = measured(linear(first, second), x)
    assert values["g"] == pytest.approx(norm(second @ first) ** 2, rel=EXACT)
    x2, hidden2 = (x.numpy() ** 2).sum(1), ((x.numpy() @ first.T) ** 2).sum(1)
    per_layer = [(second**2).sum() * x2.mean(), 3 * hidden2.mean()]
    assert values["sharpness_per_layer"] == pytest.approx(np.array(per_layer), rel=EXACT)
    assert values["sharpness"] == pytest.approx(sum(per_layer), rel=EXACT)
    assert values["nmls"] == pytest.approx(spectral(second @ first) + spectral(second), rel=EXACT)
    kappa = [(x2 * ((second @ first) ** 2).sum()).mean(), (hidden2 * (second**2).sum()).mean()]
    assert values["relative_flatness"] == pytest.approx(np.array(kappa), rel=EXACT)


def test_a_chain_of_numbers_has_the_trace_of_its_hessian_as_sharpness(measured):
    chain, x, target = torch.tensor([0.5, -2.0, 1.5, 0.8], dtype=torch.float64), 1.7, -0.4
    values = measured(
        linear(*(w.reshape(1, 1).numpy() for w in chain)), torch.tensor([[x]], dtype=torch.float64)
    )

    def loss(weights):
        return (weights.prod() * x - target) ** 2 / 2

    hessian = torch.autograd.functional.hessian(loss, chain)
    product = float(chain.prod())
    assert values["sharpness"] == pytest.approx(
        x**2 * product**2 * float((chain**-2).sum()), rel=EXACT
    )
    assert values["sharpness"] == pytest.approx(float(hessian.trace()), rel=EXACT)
    tails = [abs(float(chain[number:].prod())) for number in range(len(chain))]
    assert values["mls_per_layer"] == pytest.approx(np.array(tails), rel=EXACT)
    assert values["nmls"] == pytest.approx(sum(tails), rel=EXACT)


@pytest.mark.parametrize(("a", "b"), [(3.0, 0.5), (-2.0, 2.0), (1e-6, 1.0)])
def test_a_diagonal_map_has_the_volume_and_dimension_of_its_ellipse(a, b, normal, measured):
    values = measured(linear(np.diag([a, b])), normal(5, 2))
    assert values["log_volume"] == pytest.approx(np.log(abs(a * b)), rel=EXACT)
    assert values["log_mean_volume"] == pytest.approx(np.log(abs(a * b)), rel=EXACT)
    assert values["local_dimension"] == pytest.approx((a**2 + b**2) ** 2 / (a**4 + b**4), rel=EXACT)


def test_means_are_over_samples_and_logarithms_are_inside_them(normal, measured):
    """mean of ln, not ln of mean; root of the mean, not mean of roots."""
    model = nn.Sequential(
        linear(np.diag([2.0, 3.0])), nn.Tanh(), linear(np.array([[1.0, 0.0], [0.0, 1.0]]))
    )
    x = normal(6, 2)
    each = [measured(model, x[i : i + 1]) for i in range(len(x))]
    values = measured(model, x)
    for name in ("log_volume", "mls", "g", "sharpness", "local_dimension", "bound_b"):
        mean = np.mean([value[name] for value in each])
        assert values[name] == pytest.approx(mean, rel=EXACT), name
    volumes = np.exp([value["log_volume"] for value in each])
    assert values["log_mean_volume"] == pytest.approx(np.log(volumes.mean()), rel=EXACT)
    assert values["root_sharpness"] == pytest.approx(np.sqrt(values["sharpness"]), rel=EXACT)
    assert values["samples_measured"] == len(x)


@pytest.mark.parametrize("outputs", [1, 4])
def test_the_mean_loss_has_two_over_outputs_of_the_relative_flatness(outputs, normal, measured):
    """Of the half-mse loss it is mean |x|^2 ||W||_F^2, with any targets."""
    weight, x = normal(outputs, 5).numpy(), normal(20, 5, seed=1)
    values = measured(linear(weight), x, relative_flatness_loss="mean-mse")
    half = (x.numpy() ** 2).sum(1).mean() * (weight**2).sum()
    assert values["relative_flatness"] == pytest.approx(np.array([2 / outputs * half]), rel=EXACT)


@pytest.mark.parametrize("largest", [1, 2, 3])
def test_the_largest_singular_values_alone_enter_the_log_volume(largest, normal, measured):
    weight = normal(4, 5).numpy()
    values = measured(linear(weight), normal(4, 5, seed=1), singular_values=largest)
    sigma = svd(weight, compute_uv=False)
    assert values["log_volume"] == pytest.approx(np.log(sigma[:largest]).sum(), rel=EXACT)
    assert values["log_volume_of_three"] == pytest.approx(np.log(sigma[:3]).sum(), rel=EXACT)
