"""Geometry of networks for which every quantity has a closed form."""

import numpy as np
import pytest
import torch
from numpy.linalg import norm, svd
from torch import nn

from flatlab.metrics.geometry import QUANTITIES

EXACT = 1e-12


def linear(*weights, biases=None):
    """A chain of linear layers with given weights."""
    layers = []
    for number, weight in enumerate(weights):
        outputs, inputs = weight.shape
        layer = nn.Linear(inputs, outputs, bias=biases is not None, dtype=torch.float64)
        layer.weight.data = torch.as_tensor(weight)
        if biases is not None:
            layer.bias.data = torch.as_tensor(biases[number])
        layers.append(layer)
    return nn.Sequential(*layers)


def spectral(matrix):
    return svd(matrix, compute_uv=False)[0]


def one_layer(weight, x, bias):
    """Every quantity of f = W x (+ b), from its formula."""
    outputs, layers = len(weight), 1
    sigma = svd(weight, compute_uv=False)
    x2 = (x**2).sum(1)
    of_weights, of_bias = outputs * x2.mean(), outputs * float(bias)
    reciprocal = np.sqrt((1 / x2).mean())
    with_bias = np.sqrt((1 / (x2 + bias)).mean())
    sharpness = of_weights + of_bias
    scalars = {
        "sharpness": sharpness,
        "root_sharpness": np.sqrt(sharpness),
        "mls": sigma[0],
        "nmls": sigma[0],
        "log_volume": np.log(sigma).sum(),
        "local_dimension": (sigma**2).sum() ** 2 / norm(weight @ weight.T) ** 2,
        "bound_a": sigma[0],
        "bound_b": np.sqrt(outputs) * sigma[0],
        "bound_c": np.sqrt(outputs) * sigma[0] * reciprocal * np.sqrt(x2.mean()),
        "bound_d": sigma[0] * reciprocal * np.sqrt(sharpness),
        "nmls_bound": sigma[0] * reciprocal * np.sqrt(sharpness),
        "nmls_bound_layerwise": np.sqrt(outputs) * sigma[0] * reciprocal * np.sqrt(x2.mean()),
        "nmls_bound_with_bias": sigma[0] * with_bias * np.sqrt(sharpness),
        "samples_measured": len(x),
        "samples_rank_deficient": 0,
        "samples_zero_jacobian": 0,
    }
    per_layer = {
        "sharpness_per_layer": of_weights,
        "bias_sharpness_per_layer": of_bias,
        "mls_per_layer": sigma[0],
        "layer_bound": np.sqrt(outputs) * sigma[0] * reciprocal * np.sqrt(x2.mean()),
        "weight_norm": sigma[0],
        "reciprocal_input_norm": reciprocal,
        "relative_flatness": x2.mean() * (weight**2).sum(),
        "samples_zero_input": 0,
    }
    return {**scalars, **{name: np.full(layers, value) for name, value in per_layer.items()}}


@pytest.mark.parametrize("bias", [False, True])
def test_one_linear_layer_has_its_closed_forms(bias, normal, measured):
    weight, x = normal(3, 5).numpy(), normal(20, 5, seed=1)
    model = linear(weight, biases=[normal(3, seed=2).numpy()] if bias else None)
    expected = one_layer(weight, x.numpy(), bias)
    assert set(expected) == set(QUANTITIES)
    values = measured(model, x)
    for name, value in expected.items():
        assert values[name] == pytest.approx(value, rel=EXACT), name


def test_without_a_bias_bounds_c_and_d_of_one_layer_are_equal(normal, measured):
    values = measured(linear(normal(3, 5).numpy()), normal(20, 5, seed=1))
    assert values["bound_c"] == pytest.approx(values["bound_d"], rel=EXACT)


def test_an_orthogonal_map_keeps_volume_and_uses_all_dimensions(normal, measured):
    orthogonal = np.linalg.qr(normal(4, 4).numpy())[0]
    values = measured(linear(orthogonal), normal(10, 4, seed=1))
    assert values["log_volume"] == pytest.approx(0, abs=EXACT)
    assert values["local_dimension"] == pytest.approx(4, rel=EXACT)
    assert values["bound_a"] == pytest.approx(1, rel=EXACT)
    assert values["bound_b"] == pytest.approx(2, rel=EXACT)  # sqrt(4)


def test_two_linear_layers_have_their_closed_forms(normal, measured):
    first, second = normal(4, 5).numpy(), normal(3, 4, seed=1).numpy()
    x = normal(20, 5, seed=2)
    values = measured(linear(first, second), x)
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
    assert values["local_dimension"] == pytest.approx((a**2 + b**2) ** 2 / (a**4 + b**4), rel=EXACT)


def test_means_are_over_samples_and_logarithms_are_inside_them(normal, measured):
    """mean of ln, not ln of mean; root of the mean, not mean of roots."""
    model = nn.Sequential(
        linear(np.diag([2.0, 3.0])), nn.Tanh(), linear(np.array([[1.0, 0.0], [0.0, 1.0]]))
    )
    x = normal(6, 2)
    each = [measured(model, x[i : i + 1]) for i in range(len(x))]
    values = measured(model, x)
    for name in ("log_volume", "mls", "sharpness", "local_dimension", "bound_b"):
        assert values[name] == pytest.approx(np.mean([value[name] for value in each]), rel=EXACT), (
            name
        )
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
    weight = normal(3, 5).numpy()
    values = measured(linear(weight), normal(4, 5, seed=1), singular_values=largest)
    sigma = svd(weight, compute_uv=False)
    assert values["log_volume"] == pytest.approx(np.log(sigma[:largest]).sum(), rel=EXACT)
