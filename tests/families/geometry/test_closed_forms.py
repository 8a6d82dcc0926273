"""Geometry where there is a closed form: one linear layer, and convolutions whose gradients cancel.

`test_architectures.py` has all quantities of all kinds of networks by their definitions.
"""

import numpy as np
import pytest
import torch
from numpy.linalg import norm, svd
from torch import nn

EXACT = 1e-12


def linear(weight, bias=None):
    layer = nn.Linear(*weight.shape[::-1], bias=bias is not None, dtype=torch.float64)
    layer.weight.data = torch.as_tensor(weight)
    if bias is not None:
        layer.bias.data = bias
    return layer


@pytest.mark.parametrize("bias", [False, True])
def test_one_linear_layer_has_its_closed_forms(bias, normal, measured):
    weight, x = normal(3, 5).numpy(), normal(20, 5, seed=1)
    values = measured(linear(weight, normal(3, seed=2) if bias else None), x)
    sigma, x2 = svd(weight, compute_uv=False), (x.numpy() ** 2).sum(1)
    sharpness, q = 3 * x2.mean() + 3 * bias, np.sqrt((1 / x2).mean())
    expected = {
        **{"g": norm(weight) ** 2, "log_volume": np.log(sigma).sum(), "sharpness": sharpness},
        **{"mls": sigma[0], "bound_a": sigma[0], "bound_b": np.sqrt(3) * sigma[0]},
        **{"normalized_mls": x2.mean() * sigma[0] ** 2, "bound_d": sigma[0] * q * sharpness**0.5},
        "local_dimension": (sigma**2).sum() ** 2 / (sigma**4).sum(),
        "relative_flatness": np.array([x2.mean() * norm(weight) ** 2]),
    }
    for name, value in expected.items():
        assert values[name] == pytest.approx(value, rel=EXACT), name
    assert bias == (values["bound_c"] != pytest.approx(values["bound_d"], rel=EXACT))


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
def test_a_difference_of_equal_pixels_violates_the_bounds(size, channels, bias, normal, measured):
    """All gradients of parameters cancel: S = 0 and D = 0, but MLS = sqrt(2) |v| ||K||_F."""
    model = DifferenceOfCorners(channels, -1.5, bias)
    model.kernel.weight.data = normal(1, channels, 3, 3)
    x = normal(5, 1, 1, 1, seed=1).expand(5, channels, size, size)
    values = measured(model, x)
    sensitivity = 2**0.5 * 1.5 * norm(model.kernel.weight.detach().numpy().ravel())
    assert [values["mls"], values["nmls"]] == pytest.approx([sensitivity] * 2, rel=EXACT)
    for name in ("sharpness", "bound_b", "bound_c", "bound_d", "nmls_bound", "bound_by_norm"):
        assert np.all(values[name] == 0), name
    assert (values["stability_trick_ratio"] == 0).all()
    assert np.isposinf(values["linear_stability_ratio"]).all()
    assert values["violations"].tolist() == [[5], [5], [5]]
    assert np.isnan(values["corrected_bound"]).all()  # the patches are all the same
    assert np.isnan(values["relative_flatness"]).all()


def test_a_fixed_linear_layer_behind_the_convolution_has_the_same_violations(normal, measured):
    """The difference as a linear layer with frozen weights, whose own bound holds."""
    layers = nn.Conv2d(1, 1, 3, bias=False), nn.Flatten(), nn.Linear(16, 1, bias=False)
    model = nn.Sequential(*layers).double()
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
