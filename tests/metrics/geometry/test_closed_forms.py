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
    """Every quantity of f = W x (+ b), from its formula; b is None or a vector."""
    outputs, samples = len(weight), len(x)
    sigma = svd(weight, compute_uv=False)
    x2 = (x**2).sum(1)
    of_bias = outputs * float(bias is not None)
    of_weights = outputs * x2.mean()
    reciprocal = np.sqrt((1 / x2).mean())
    with_bias = np.sqrt((1 / (x2 + (bias is not None))).mean())
    sharpness = of_weights + of_bias
    volume = np.log(sigma).sum()
    dimension = (sigma**2).sum() ** 2 / norm(weight @ weight.T) ** 2
    b, c = np.sqrt(outputs) * sigma[0], sigma[0] * reciprocal * np.sqrt(of_weights)
    d = sigma[0] * reciprocal * np.sqrt(sharpness)
    volume_bound = np.log(
        np.sqrt(((sigma[0] ** 2 / x2) ** outputs).sum())
        * (samples * sharpness / outputs) ** (outputs / 2)
        / samples
    )
    adaptive = (weight**2 @ (x**2).T).sum(0).mean()
    bounds = np.array([b, c, d, d, c])
    scalars = {
        "sharpness": sharpness,
        "root_sharpness": np.sqrt(sharpness),
        "elementwise_adaptive_trace": adaptive + (0 if bias is None else (bias**2).sum()),
        "g": norm(weight) ** 2,
        "mls": sigma[0],
        "nmls": sigma[0],
        "weighted_mls": sigma[0] / reciprocal,
        "normalized_mls": x2.mean() * sigma[0] ** 2,
        "input_invariant_mls": adaptive,
        "network_input_invariant_mls": adaptive / outputs,
        "log_volume": volume,
        "log_volume_of_three": np.log(sigma[:3]).sum(),
        "log_mean_volume": volume,
        "network_log_volume": volume,
        "local_dimension": dimension,
        "bound_a": sigma[0],
        "bound_b": b,
        "bound_c": c,
        "bound_d": d,
        "nmls_bound": d,
        "nmls_bound_layerwise": c,
        "nmls_bound_with_bias": sigma[0] * with_bias * np.sqrt(sharpness),
        "log_volume_bound": volume_bound,
        "network_log_volume_bound": volume_bound,
        "matrix_normalized_sharpness": sigma[0] * np.sqrt(of_weights),
        "finite": 1,
        "samples_measured": samples,
        "samples_rank_deficient": 0,
        "samples_zero_jacobian": 0,
        "layers_left_out": 0,
    }
    per_sample = {
        "sharpness_per_sample": outputs * x2 + of_bias,
        "jacobian_frobenius": norm(weight),
        "mls_per_sample": sigma[0],
        "log_volume_per_sample": volume,
        "local_dimension_per_sample": dimension,
    }
    per_layer = {
        "sharpness_per_layer": of_weights,
        "bias_sharpness_per_layer": of_bias,
        "mls_per_layer": sigma[0],
        "layer_bound": c,
        "corrected_bound": b,
        "weight_norm": sigma[0],
        "reciprocal_input_norm": reciprocal,
        "relative_flatness": x2.mean() * norm(weight) ** 2,
        "shared": 0,
        "samples_zero_input": 0,
    }
    both = {
        "sensitivity": sigma[0],
        "stability_trick_ratio": 1,
        "linear_stability_ratio": 1 / np.sqrt(outputs),
    }
    return {
        **scalars,
        **{name: np.broadcast_to(value, samples) for name, value in per_sample.items()},
        **{name: np.full(1, value) for name, value in per_layer.items()},
        **{name: np.full((samples, 1), value) for name, value in both.items()},
        "bound_by_norm": np.stack([bounds, bounds, bounds * norm(weight) / sigma[0]]),
        "violations": np.zeros((3, 1)),
    }


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


class DifferenceOfCorners(nn.Module):
    """f = v (z_00 - z_33), z the convolution of an image with one kernel, without padding."""

    def __init__(self, channels, v, bias):
        super().__init__()
        self.v = v
        self.kernel = nn.Conv2d(channels, 1, 3, bias=bias, dtype=torch.float64)

    def forward(self, x):
        z = self.kernel(x)
        return self.v * (z[:, :, 0, 0] - z[:, :, 3, 3])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("size", [6, 7])
def test_on_constant_images_a_difference_of_pixels_violates_the_bounds(
    size, channels, bias, normal, measured
):
    """All gradients of parameters cancel: S = 0 and D = 0, but MLS = sqrt(2) |v| ||K||_F."""
    model = DifferenceOfCorners(channels, -1.5, bias)
    model.kernel.weight.data = normal(1, channels, 3, 3)
    x = normal(5, 1, 1, 1, seed=1).expand(5, channels, size, size)
    values = measured(model, x)
    sensitivity = 2**0.5 * 1.5 * norm(model.kernel.weight.detach().numpy().ravel())
    assert values["mls"] == pytest.approx(sensitivity, rel=EXACT)
    assert values["nmls"] == pytest.approx(sensitivity, rel=EXACT)
    for name in ("sharpness", "bound_b", "bound_c", "bound_d", "nmls_bound", "bound_by_norm"):
        assert np.all(values[name] == 0), name
    assert (values["stability_trick_ratio"] == 0).all()
    assert np.isposinf(values["linear_stability_ratio"]).all()
    assert values["violations"].tolist() == [[5], [5], [5]]
    assert np.isnan(values["corrected_bound"]).all()  # the patches are all the same
    assert np.isnan(values["relative_flatness"]).all()


def test_a_fixed_linear_layer_behind_the_convolution_has_the_same_violations(normal, measured):
    """The difference as a linear layer with frozen weights, whose own bound holds."""
    model = nn.Sequential(
        nn.Conv2d(1, 1, 3, bias=False), nn.Flatten(), nn.Linear(16, 1, bias=False)
    ).double()
    model[0].weight.data = normal(1, 1, 3, 3)
    v = torch.zeros(1, 16, dtype=torch.float64)
    v[0, 0], v[0, 15] = 0.7, -0.7
    model[2].weight = nn.Parameter(v, requires_grad=False)
    values = measured(model, normal(4, 1, 1, 1, seed=1).expand(4, 1, 6, 6))
    kernel = norm(model[0].weight.detach().numpy().ravel())
    sensitivities = [2**0.5 * 0.7 * kernel, 2**0.5 * 0.7]
    assert values["mls_per_layer"] == pytest.approx(np.array(sensitivities), rel=EXACT)
    assert values["sharpness"] == 0
    assert values["sharpness_per_layer"][0] == 0
    assert values["bound_d"] == values["nmls_bound"] == 0
    assert values["layer_bound"][0] == 0
    assert values["violations"].tolist() == [[4, 0], [4, 0], [4, 0]]


def test_a_convolution_that_covers_its_image_is_a_linear_layer(normal, measured):
    """There is one output position, and all closed forms are those of a linear layer."""
    weight, x = normal(3, 2, 3, 4), normal(10, 2, 3, 4, seed=1)
    convolution = nn.Sequential(nn.Conv2d(2, 3, (3, 4), bias=False), nn.Flatten()).double()
    convolution[0].weight.data = weight
    expected = one_layer(weight.flatten(1).numpy(), x.flatten(1).numpy(), None)
    values = measured(convolution, x)
    for name in expected.keys() - {"shared", "relative_flatness"}:
        assert values[name] == pytest.approx(expected[name], rel=EXACT), name


def test_a_convolution_of_single_pixels_is_a_linear_layer_for_each(normal, measured):
    """1 x 1 kernels and the sum over pixels: df_k/dW_k is the sum of the pixels."""

    class SumOfPixels(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv2d(2, 3, 1, dtype=torch.float64)

        def forward(self, x):
            return self.layer(x).sum((2, 3))

    model, x = SumOfPixels(), normal(8, 2, 4, 5)
    weight = model.layer.weight.detach().flatten(1).numpy()
    values, sums = measured(model, x), x.sum((2, 3)).numpy()
    of_weights = 3 * (sums**2).sum(1)
    assert values["sharpness_per_layer"] == pytest.approx([of_weights.mean()], rel=EXACT)
    assert values["bias_sharpness_per_layer"] == pytest.approx([3 * 20**2], rel=EXACT)
    sharpness = of_weights + 3 * 20**2
    assert values["sharpness_per_sample"] == pytest.approx(sharpness, rel=EXACT)
    assert values["mls"] == pytest.approx(np.sqrt(20) * spectral(weight), rel=EXACT)
    for norms in values["bound_by_norm"][:2]:  # of the kernel and of the operator
        x2 = (x.numpy() ** 2).sum((1, 2, 3))
        b = spectral(weight) * np.sqrt(of_weights / x2).mean()
        assert norms[0] == pytest.approx(b, rel=EXACT)
    ratio = np.sqrt((sums**2).sum(1) / (20 * x2))
    assert values["stability_trick_ratio"][:, 0] == pytest.approx(ratio, rel=EXACT)
