"""Geometry where a formula divides by zero, is not defined or finite, or silently wrong."""

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab.families.geometry import NOT_DIRECT, OF_THE_FIRST_LAYER
from flatlab.measuring.grid import measure_pack
from tests.lab.train.packs import small
from tests.networks.written import Written
from tests.synthetic.packs import about, asked, networks, weights_of

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


def test_a_rank_deficient_jacobian_is_left_out_of_the_log_volume_and_counted(measured):
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU()).double()
    model[0].weight.data = torch.diag(rows(2.0, 3.0))
    values = measured(model, rows([1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [2.0, 1.0]))
    assert values["log_volume"] == pytest.approx(np.log(6), rel=1e-12)
    assert values["log_volume_per_sample"][1:3].tolist() == [-np.inf, -np.inf]
    assert values["log_mean_volume"] == pytest.approx(np.log(3), rel=1e-12)  # zeros enter a mean
    assert values["samples_rank_deficient"] == 2


@pytest.mark.parametrize("widths", [(64, 4, 10), (64, 64, 4, 64, 10), (6, 20, 4)])
@pytest.mark.parametrize(("activation", "dtype"), [("relu", "float32"), ("tanh", "float64")])
def test_a_bottleneck_or_two_equal_outputs_have_no_volume_whatever_the_rounding(
    widths, activation, dtype, mlp, normal, measured
):
    model = mlp(widths, activation=activation).to(getattr(torch, dtype))
    if widths == (6, 20, 4):
        model[2].weight.data[3] = model[2].weight.data[0]
    values = measured(model, normal(20, widths[0]).to(model[0].weight))
    assert np.isnan(values["log_volume"])
    assert (values["log_volume_per_sample"] == -np.inf).all()
    assert values["samples_rank_deficient"] == 20


def test_one_dead_sample_makes_the_bounds_infinite_except_the_one_with_bias(gated, measured):
    values = measured(gated, rows([-1.0], [2.0]))
    assert values["samples_zero_input"].tolist() == [0, 1]
    assert values["reciprocal_input_norm"][1] == np.inf
    assert values["layer_bound"][1] == np.inf
    assert values["nmls_bound"] == values["nmls_bound_layerwise"] == np.inf
    assert values["nmls"] <= values["nmls_bound_with_bias"] < np.inf
    assert values["bound_a"] <= values["bound_d"] < np.inf


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
def test_inputs_of_zero_make_the_bounds_alone_infinite(zeros, bias, mlp, normal, measured):
    x = normal(5, 4)
    x[:zeros] = 0
    values = measured(mlp((4, 6, 3), bias=bias, activation="tanh"), x)
    assert values["samples_zero_input"][0] == zeros
    for name in BOUNDS[:-1] if bias else BOUNDS:
        assert values[name] == np.inf, name
    assert values["bound_a"] <= values["bound_b"] < np.inf  # ||Gamma|| is there at x = 0 too
    if bias:
        assert values["nmls"] <= values["nmls_bound_with_bias"] < np.inf
    finite = ("mls", "nmls", "sharpness", "log_volume", "local_dimension", "input_invariant_mls")
    assert np.isfinite([values[name] for name in finite]).all()
    assert not values["violations"].any()


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


def test_what_bounds_the_map_from_the_inputs_is_left_out_behind_a_recurrent_module():
    """The first linear layer is the head; 65 would stand beside a "bound" of 16."""
    torch.manual_seed(0)
    gru = nn.GRU(3, 4, batch_first=True)
    model = Written(lambda net, x: net.head(net.gru(x)[0][:, -1]), gru=gru, head=nn.Linear(4, 2))
    with torch.no_grad():
        gru.weight_ih_l0 *= 20
    report = flatlab.measure(model, torch.randn(5, 6, 3) / 20, families="geometry")
    assert report["mls"] > report["mls_per_layer"][0]
    assert not {*OF_THE_FIRST_LAYER} & {*report}
    assert NOT_DIRECT in report.attrs["quantities_left_out"]


def test_an_input_changed_in_place_behind_its_layer_changes_nothing(normal, measured):
    """x^l is what the layer saw, not what became of it."""

    def residual(in_place):
        def forward(net, x):
            x = x * 2.0
            y = net.first(x).tanh()
            return net.last(x.add_(y) if in_place else x + y)

        torch.manual_seed(0)
        return Written(forward, first=nn.Linear(4, 4), last=nn.Linear(4, 2))

    plain, in_place = (measured(residual(each).double(), normal(6, 4)) for each in (False, True))
    for name in plain:
        assert np.array_equal(plain[name], in_place[name], equal_nan=True), name


FACTS = {"finite", "shared", "samples_measured", "layers_left_out"}
"""What is known of a network whose weights are not finite."""


@pytest.mark.parametrize(
    ("widths", "factor", "late"),
    [
        pytest.param((5, 6, 6, 3), 1e20, 1, id="outputs"),
        # what the first samples show is not the whole: sample 9 alone overflows
        pytest.param((5, 6, 3), 1e10, 1e25, id="outputs of a late sample"),
        # the outputs are finite, float32 has no number for their squared gradients
        pytest.param((5, 6, 6, 3), 1e10, 1, id="squares"),
    ],
)
def test_what_overflows_has_no_values(widths, factor, late, mlp, normal, measured):
    model, x = mlp(widths).float(), normal(10, 5).float()
    for parameter in model.parameters():
        parameter.data *= factor
    x[9] *= late
    assert model(x).isfinite().all() == (factor * late == 1e10)
    values = measured(model, x)
    assert values["finite"] == 0
    assert {name for name, value in values.items() if not np.isnan(value).all()} == FACTS


def pack(stripes, family, change):
    """Measure two networks of one pack; `change` edits the weights of the first."""
    network = {**small("mlp"), "initialization": "framework"}
    arrays = weights_of(networks(network, (4, 4), 3, count=2))
    for array in arrays.values():
        change(array[0])
    settings = asked(family, network)
    return measure_pack([(arrays, about([7]))], stripes, settings)


@pytest.mark.parametrize("family", ["geometry", "accuracy"])
@pytest.mark.parametrize("factor", [np.nan, np.inf, 1e290])
def test_a_network_that_is_not_finite_or_overflows_spoils_no_other_of_the_pack(
    family, factor, stripes
):
    def spoil(array):
        array *= factor

    spoilt, whole = pack(stripes, family, spoil), pack(stripes, family, lambda array: None)
    assert set(spoilt.data_vars) == set(whole.data_vars)
    for name in set(spoilt.data_vars) - FACTS:
        assert np.isnan(spoilt[name].values[0]).all(), name
        assert np.array_equal(spoilt[name].values[1], whole[name].values[1], equal_nan=True), name
    if family == "geometry":
        assert spoilt["finite"].values.ravel().tolist() == [0, 1]


@pytest.mark.parametrize(
    ("widths", "largest"), [*(((5, 4), largest) for largest in (1, 2, 3, 9)), ((64, 4, 10), 1)]
)
def test_the_largest_singular_values_alone_enter_the_log_volume(
    widths, largest, mlp, normal, measured
):
    """Behind a bottleneck, too, where all of them have no volume."""
    model, x = mlp(widths, activation="tanh"), normal(20, widths[0])
    values = measured(model, x, singular_values=largest)
    jacobians = [torch.autograd.functional.jacobian(model, sample) for sample in x]
    sigma = torch.linalg.svdvals(torch.stack(jacobians)).log()
    assert values["samples_rank_deficient"] == 0
    for name, count in (("log_volume", largest), ("log_volume_of_three", 3)):
        expected = float(sigma[:, :count].sum(1).mean())
        assert values[name] == pytest.approx(expected, rel=1e-12), name


def difference_of_corners(channels, v, bias):
    """f = v (z_00 - z_33), z the convolution of an image with one kernel, without padding."""
    kernel = nn.Conv2d(channels, 1, 3, bias=bias, dtype=torch.float64)
    ends = lambda z: z[:, :, 0, 0] - z[:, :, 3, 3]  # noqa: E731
    return Written(lambda net, x: v * ends(net.kernel(x)), kernel=kernel)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("size", [6, 7])
def test_a_difference_of_equal_pixels_violates_the_bounds(size, channels, bias, normal, measured):
    """All gradients of parameters cancel: S = 0 and D = 0, but MLS = sqrt(2) |v| ||K||_F."""
    model = difference_of_corners(channels, -1.5, bias)
    model.kernel.weight.data = normal(1, channels, 3, 3)
    x = normal(5, 1, 1, 1, seed=1).expand(5, channels, size, size)
    values = measured(model, x)
    sensitivity = 2**0.5 * 1.5 * np.linalg.norm(model.kernel.weight.detach().numpy().ravel())
    assert [values["mls"], values["nmls"]] == pytest.approx([sensitivity] * 2, rel=1e-12)
    for name in ("sharpness", "bound_b", "bound_c", "bound_d", "nmls_bound", "bound_by_norm"):
        assert np.all(values[name] == 0), name
    assert (values["stability_trick_ratio"] == 0).all()
    assert np.isposinf(values["linear_stability_ratio"]).all()
    assert values["violations"].tolist() == [[5], [5], [5]]
    assert np.isnan(values["corrected_bound"]).all()  # the patches are all the same
    assert np.isnan(values["relative_flatness"]).all()
