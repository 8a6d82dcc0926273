"""Geometry where a formula divides by zero, is not defined, or would be silently wrong."""

import numpy as np
import pytest
import torch
from torch import nn

from flatlab.metrics.geometry import QUANTITIES

BOUNDS = ["bound_c", "bound_d", "nmls_bound", "nmls_bound_layerwise", "nmls_bound_with_bias"]


def rows(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.fixture
def gated():
    """A network whose hidden layer is alive for inputs > 0 and dead for inputs < 0."""
    model = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 2)).double()
    model[0].weight.data = rows([1.0], [2.0])
    model[0].bias.data.zero_()
    return model


def test_a_zero_jacobian_has_no_dimension_and_is_counted(gated, measured):
    values = measured(gated, rows([-1.0], [-2.0], [-3.0]))
    assert values["mls"] == values["g"] == 0
    assert np.isnan(values["local_dimension"])
    assert np.isnan(values["local_dimension_per_sample"]).all()
    assert values["log_mean_volume"] == -np.inf
    assert values["samples_zero_jacobian"] == values["samples_rank_deficient"] == 3


def test_zero_jacobians_leave_the_dimension_of_the_other_samples(gated, measured):
    values = measured(gated, rows([-1.0], [2.0], [-3.0]))
    assert values["local_dimension"] == pytest.approx(1, rel=1e-12)  # one input number
    assert values["samples_zero_jacobian"] == 2
    assert values["samples_measured"] == 3


def test_a_rank_deficient_jacobian_is_left_out_of_the_log_volume_and_counted(measured):
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU()).double()
    model[0].weight.data = torch.diag(rows(2.0, 3.0))
    values = measured(model, rows([1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [2.0, 1.0]))
    assert values["log_volume"] == pytest.approx(np.log(6), rel=1e-12)
    assert values["log_volume_per_sample"][1:3].tolist() == [-np.inf, -np.inf]
    assert values["log_mean_volume"] == pytest.approx(np.log(3), rel=1e-12)  # zeros enter a mean
    assert values["samples_rank_deficient"] == 2


@pytest.mark.parametrize("widths", [(64, 4, 10), (64, 64, 4, 64, 10)])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_bottleneck_makes_every_sample_rank_deficient(widths, activation, mlp, normal, measured):
    values = measured(mlp(widths, activation=activation), normal(20, 64))
    assert np.isnan(values["log_volume"])
    assert values["samples_rank_deficient"] == 20


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_two_equal_outputs_have_no_volume_whatever_the_rounding(dtype, mlp, normal, measured):
    model = mlp((6, 20, 4)).to(dtype)
    model[2].weight.data[3] = model[2].weight.data[0]
    values = measured(model, normal(10, 6).to(dtype))
    assert values["samples_rank_deficient"] == 10
    assert (values["log_volume_per_sample"] == -np.inf).all()


@pytest.mark.parametrize("largest", ["all", 1000])
def test_more_outputs_than_inputs_have_no_volume(largest, mlp, normal, measured):
    """The image of a ball has fewer dimensions than the outputs: the volume is zero."""
    values = measured(mlp((2, 8, 4)), normal(6, 2), singular_values=largest)
    assert np.isnan(values["log_volume"])
    assert values["samples_rank_deficient"] == 6


def test_the_largest_singular_values_have_a_volume_where_all_have_none(mlp, normal, measured):
    model, x = mlp((64, 4, 10), activation="tanh"), normal(20, 64)
    values = measured(model, x, singular_values=1)
    jacobians = torch.stack([torch.autograd.functional.jacobian(model, sample) for sample in x])
    largest = torch.linalg.matrix_norm(jacobians, 2)
    assert values["samples_rank_deficient"] == 0
    assert values["log_volume"] == pytest.approx(float(largest.log().mean()), rel=1e-12)


def test_a_constant_volume_is_the_log_of_every_mean(normal, measured):
    """An affine map has one Jacobian: mean of logarithms and logarithm of the mean agree."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3)).double()
    values = measured(model, normal(12, 4))
    expected = np.full(12, values["log_volume"])
    assert values["log_volume_per_sample"] == pytest.approx(expected, rel=1e-12)
    assert values["log_mean_volume"] == pytest.approx(values["log_volume"], rel=1e-12)
    assert values["samples_rank_deficient"] == 0


def test_one_dead_sample_makes_the_bounds_infinite_except_the_one_with_bias(gated, measured):
    values = measured(gated, rows([-1.0], [2.0]))
    assert values["samples_zero_input"].tolist() == [0, 1]
    assert values["reciprocal_input_norm"][1] == np.inf
    assert values["layer_bound"][1] == np.inf
    assert values["nmls_bound"] == values["nmls_bound_layerwise"] == np.inf
    assert values["nmls"] <= values["nmls_bound_with_bias"] < np.inf
    assert values["bound_a"] <= values["bound_d"] < np.inf


def test_a_layer_dead_for_all_samples_makes_the_bounds_infinite_too(gated, measured):
    values = measured(gated, rows([-1.0], [-2.0]))
    assert values["samples_zero_input"].tolist() == [0, 2]
    assert values["nmls"] <= values["nmls_bound_with_bias"] < np.inf
    assert values["nmls_bound"] == np.inf
    assert values["layer_bound"][1] == np.inf
    assert values["nmls_bound_layerwise"] == np.inf


def test_without_biases_a_dead_layer_makes_the_bounds_infinite_not_undefined(measured):
    """Sharpness is zero there: the bounds must not become 0 x infinity."""
    model = nn.Sequential(nn.Linear(1, 2, bias=False), nn.ReLU(), nn.Linear(2, 2, bias=False))
    model = model.double()
    model[0].weight.data = rows([1.0], [2.0])
    values = measured(model, rows([-1.0], [-2.0]))
    assert values["sharpness"] == 0
    assert values["nmls"] > 0
    for name in ("nmls_bound", "nmls_bound_layerwise", "nmls_bound_with_bias"):
        assert values[name] == np.inf, name


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("zeros", [1, 5])
def test_inputs_of_zero_make_the_bounds_infinite_and_leave_the_rest(
    zeros, bias, mlp, normal, measured
):
    x = normal(5, 4)
    x[:zeros] = 0
    values = measured(mlp((4, 6, 3), bias=bias, activation="tanh"), x)
    assert values["samples_zero_input"][0] == zeros
    for name in BOUNDS[:-1] if bias else BOUNDS:
        assert values[name] == np.inf, name
    assert values["bound_a"] <= values["bound_b"] < np.inf  # ||Gamma|| is there at x = 0 too
    if bias:
        assert values["nmls"] <= values["nmls_bound_with_bias"] < np.inf
    for name in (
        "mls",
        "nmls",
        "sharpness",
        "log_volume",
        "local_dimension",
        "input_invariant_mls",
    ):
        assert np.isfinite(values[name]), name
    assert not values["violations"].any()


def test_a_black_image_makes_the_bounds_of_a_convolution_infinite(convolutional, measured, images):
    x = images()
    x[2] = 0
    values = measured(convolutional, x)
    assert values["samples_zero_input"].tolist() == [1, 0, 0]
    assert values["reciprocal_input_norm"][0] == np.inf
    for name in ("bound_b", *BOUNDS[:-1]):
        assert values[name] == np.inf, name
    assert np.isfinite(values["nmls_bound_with_bias"])


def test_parameter_gradients_that_cancel_over_an_image_are_a_violation_and_no_error(measured):
    """On a constant image the difference of two pixels of a convolution has no sharpness."""

    class Difference(nn.Module):
        def __init__(self):
            super().__init__()
            self.kernel = nn.Conv2d(1, 1, 3, bias=False)

        def forward(self, x):
            z = self.kernel(x)
            return z[:, :, 0, 0] - z[:, :, 3, 3]

    model = Difference().double()
    values = measured(model, torch.ones(2, 1, 6, 6, dtype=torch.float64))
    norm = float(torch.linalg.vector_norm(model.kernel.weight.detach()))
    assert values["sharpness"] == 0
    assert values["mls"] == pytest.approx(2**0.5 * norm, rel=1e-12)
    assert values["bound_d"] == 0
    assert values["stability_trick_ratio"].tolist() == [[0], [0]]
    assert (values["violations"] == 2).all()


def test_at_a_kink_the_derivative_of_relu_is_zero(measured):
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1)).double()
    model[0].weight.data = rows([1.0, -1.0], [0.0, 1.0])
    model[2].weight.data = rows([3.0, 5.0])
    assert measured(model, rows([1.0, 1.0]))["mls"] == 5  # the first unit is at 0


def test_ties_in_max_pooling_go_to_the_first(measured):
    model = nn.Sequential(nn.Linear(1, 2), nn.MaxPool1d(2)).double()
    model[0].weight.data, model[0].bias.data = rows([2.0], [3.0]), rows(0.0, -1.0)
    assert measured(model, rows([1.0]))["mls"] == 2  # both units are 2 there
    model[0].weight.data, model[0].bias.data = rows([3.0], [2.0]), rows(-1.0, 0.0)
    assert measured(model, rows([1.0]))["mls"] == 3


def test_activations_in_place_change_nothing(mlp, normal, measured):
    model, x = mlp((5, 6, 6, 3)), normal(10, 5)
    before = measured(model, x)
    model[1].inplace = model[3].inplace = True
    after = measured(model, x)
    for name in QUANTITIES:
        assert np.array_equal(after[name], before[name], equal_nan=True), name


def test_activations_in_place_behind_convolutions_change_nothing(convolutional, measured, images):
    before = measured(convolutional, images())
    convolutional[2].inplace = convolutional[6].inplace = True
    after = measured(convolutional, images())
    for name in QUANTITIES:
        assert np.array_equal(after[name], before[name], equal_nan=True), name


def test_an_input_changed_in_place_behind_its_layer_changes_nothing(normal, measured):
    """x^l is what the layer saw, not what became of it."""

    class Residual(nn.Module):
        def __init__(self, in_place):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)
            self.in_place = in_place

        def forward(self, x):
            x = x * 2.0
            y = self.first(x).tanh()
            if self.in_place:
                x += y
            else:
                x = x + y
            return self.last(x)

    plain, in_place = (
        measured(Residual(in_place).double(), normal(6, 4)) for in_place in (False, True)
    )
    for name in QUANTITIES:
        assert np.array_equal(plain[name], in_place[name], equal_nan=True), name
