"""Geometry where a formula divides by zero, is not defined, or would be silently wrong."""

import numpy as np
import pytest
import torch
from torch import nn

from flatlab.metrics import MeasureError, linear_layers, measure_pack
from flatlab.metrics.geometry import QUANTITIES

COUNTS = [name for name in QUANTITIES if name.startswith("samples_")]


def sentence(error):
    """The message of an error, which must be one sentence."""
    message = str(error.value)
    assert "\n" not in message
    assert len(message) > 20
    return message


@pytest.fixture
def gated():
    """A network whose hidden layer is alive for inputs > 0 and dead for inputs < 0."""
    model = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 2)).double()
    model[0].weight.data = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    model[0].bias.data.zero_()
    return model


def test_a_zero_jacobian_has_no_dimension_and_is_counted(gated, measured):
    values = measured(gated, torch.tensor([[-1.0], [-2.0], [-3.0]], dtype=torch.float64))
    assert values["mls"] == 0
    assert np.isnan(values["local_dimension"])
    assert values["samples_zero_jacobian"] == 3


def test_zero_jacobians_leave_the_dimension_of_the_other_samples(gated, measured):
    x = torch.tensor([[-1.0], [2.0], [-3.0]], dtype=torch.float64)
    values = measured(gated, x)
    assert values["local_dimension"] == pytest.approx(1, rel=1e-12)  # one input number
    assert values["samples_zero_jacobian"] == 2
    assert values["samples_measured"] == 3


def test_a_rank_deficient_jacobian_is_left_out_of_the_log_volume_and_counted(measured):
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU()).double()
    model[0].weight.data = torch.diag(torch.tensor([2.0, 3.0], dtype=torch.float64))
    x = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [2.0, 1.0]], dtype=torch.float64)
    values = measured(model, x)
    assert values["log_volume"] == pytest.approx(np.log(6), rel=1e-12)
    assert values["samples_rank_deficient"] == 2


@pytest.mark.parametrize("widths", [(64, 4, 10), (64, 64, 4, 64, 10)])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_bottleneck_makes_every_sample_rank_deficient(widths, activation, mlp, normal, measured):
    values = measured(mlp(widths, activation=activation), normal(20, 64))
    assert np.isnan(values["log_volume"])
    assert values["samples_rank_deficient"] == 20


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


def test_one_dead_sample_makes_the_bounds_infinite_except_the_one_with_bias(gated, measured):
    values = measured(gated, torch.tensor([[-1.0], [2.0]], dtype=torch.float64))
    assert values["samples_zero_input"].tolist() == [0, 1]
    assert values["reciprocal_input_norm"][1] == np.inf
    assert values["layer_bound"][1] == np.inf
    assert values["nmls_bound"] == values["nmls_bound_layerwise"] == np.inf
    assert values["nmls"] <= values["nmls_bound_with_bias"] < np.inf
    assert values["bound_a"] <= values["bound_d"] < np.inf


def test_a_layer_dead_for_all_samples_makes_the_bounds_infinite_too(gated, measured):
    values = measured(gated, torch.tensor([[-1.0], [-2.0]], dtype=torch.float64))
    assert values["samples_zero_input"].tolist() == [0, 2]
    assert values["nmls"] <= values["nmls_bound_with_bias"] < np.inf
    assert values["nmls_bound"] == np.inf
    assert values["layer_bound"][1] == np.inf
    assert values["nmls_bound_layerwise"] == np.inf


def test_activations_in_place_change_nothing(mlp, normal, measured):
    model, x = mlp((5, 6, 6, 3)), normal(10, 5)
    before = measured(model, x)
    model[1].inplace = model[3].inplace = True
    after = measured(model, x)
    for name in QUANTITIES:
        assert after[name] == pytest.approx(before[name], rel=1e-12), name


def test_measuring_leaves_the_network_as_it_was(mlp, normal, measured):
    model, x = mlp((5, 6, 3)), normal(10, 5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    measured(model, x)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


def test_a_layer_used_twice_is_refused(normal, measured):
    layer = nn.Linear(4, 4).double()
    with pytest.raises(MeasureError) as error:
        measured(nn.Sequential(layer, nn.ReLU(), layer), normal(5, 4))
    assert "'0' is used twice" in sentence(error)


def test_two_layers_that_share_their_weights_are_refused(normal, measured):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)).double()
    model[2].weight = model[0].weight
    with pytest.raises(MeasureError) as error:
        measured(model, normal(5, 4))
    assert "share" in sentence(error)


def test_a_layer_that_sees_sequences_is_refused(normal, measured):
    model = nn.Sequential(nn.Linear(4, 3), nn.Flatten(), nn.Linear(6, 2)).double()
    with pytest.raises(MeasureError) as error:
        measured(model, normal(5, 2, 4))
    assert "'0' sees sequences" in sentence(error)


def test_a_layer_that_the_network_does_not_use_is_refused(normal, measured):
    class Detour(nn.Module):
        def __init__(self):
            super().__init__()
            self.taken, self.idle = nn.Linear(4, 2), nn.Linear(4, 2)

        def forward(self, x):
            return self.taken(x)

    with pytest.raises(MeasureError) as error:
        measured(Detour().double(), normal(5, 4))
    assert "'idle'" in sentence(error)


@pytest.mark.parametrize(
    "module", [nn.Conv2d(1, 2, 3), nn.LayerNorm(4), nn.PReLU(), nn.Bilinear(2, 2, 2)]
)
def test_a_module_whose_parameters_are_not_measured_is_refused(module):
    with pytest.raises(MeasureError) as error:
        linear_layers(nn.Sequential(nn.Linear(4, 4), module))
    assert f"'1' ({type(module).__name__})" in sentence(error)


def pack(stripes, family, change, precision="float64"):
    """Measure two networks of one pack; `change` edits the weights of the first."""
    from flatlab.models import build

    network = {"name": "mlp4-small", "activation": "relu", "initialization": "framework"}
    torch.manual_seed(0)
    states = [build(network, (4, 4), 3).double().state_dict() for _ in range(2)]
    arrays = {
        name: np.stack([state[name].numpy() for state in states])[:, None] for name in states[0]
    }
    for array in arrays.values():
        change(array[0])
    settings = {
        "family": family,
        "data": {"classes": "all", "scaling": "unit"},
        "network": network,
        "outputs": None,
        "setting": "lr0.1",
        "hyperparameters": {"lr": 0.1},
        "seeds": [0, 1],
        "measure": {
            "samples": {"train": {"split": "train", "size": 10, "seed": 0}},
            "singular_values": "all",
            "relative_flatness_loss": "half-mse",
            "generalization_gap": "accuracy",
            "precision": precision,
        },
    }
    about = {"runs": ["lr0.1-s0", "lr0.1-s1"], "iterations": [7]}
    return measure_pack((arrays, about), stripes, settings)


@pytest.mark.parametrize("family", ["geometry", "accuracy"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_not_finite_have_no_values_and_spoil_no_other_run(family, bad, stripes):
    def spoil(array):
        array.flat[0] = bad

    spoilt, whole = pack(stripes, family, spoil), pack(stripes, family, lambda array: None)
    assert set(spoilt.data_vars) == set(whole.data_vars)
    for name in spoilt.data_vars:
        assert np.isnan(spoilt[name].values[0]).all(), name
        assert np.array_equal(spoilt[name].values[1], whole[name].values[1]), name
        assert np.isfinite(whole[name].values).all(), name


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_finite_weights_whose_outputs_overflow_are_measured_without_a_crash(precision, stripes):
    def blow_up(array):
        array *= 1e30 if precision == "float32" else 1e290

    values = pack(stripes, "geometry", blow_up, precision)
    for name in set(QUANTITIES) - set(COUNTS) - {"weight_norm", "reciprocal_input_norm"}:
        assert not np.isfinite(values[name].values[0]).all(), name
        assert np.isfinite(values[name].values[1]).all(), name
