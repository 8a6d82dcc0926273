"""Geometry of convolutions for which quantities have a closed form."""

import numpy as np
import pytest
import torch
from numpy.linalg import norm
from torch import nn

from tests.metrics.geometry.closed_forms import one_layer, spectral

EXACT = 1e-12


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
