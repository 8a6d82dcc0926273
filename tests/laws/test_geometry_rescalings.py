"""What rescaling a network changes and what it does not, on random networks.

Multiplying one layer and dividing a later one leaves the function of a ReLU network as it is.
"""

import copy

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from flatlab.metrics.geometry import QUANTITIES

LAW = settings(max_examples=20, deadline=None, derandomize=True)
EXACT = 1e-10
FACTORS = st.floats(0.1, 0.6) | st.floats(1.7, 10)
DEEP_RELU = {"activations": ["relu"], "hidden": (1, 3)}

OF_THE_FUNCTION = ["mls", "bound_a", "log_volume", "local_dimension"]
COUNTS = [name for name in QUANTITIES if name.startswith("samples_")]
KEPT = [*OF_THE_FUNCTION, *COUNTS, "bound_b", "bound_c", "relative_flatness"]
CHANGED = [
    "sharpness",
    "root_sharpness",
    "nmls",
    "bound_d",
    "nmls_bound",
    "nmls_bound_layerwise",
    "nmls_bound_with_bias",
]
MULTIPLIED = {
    # by which power of the factor: for the layer that is multiplied, for those up to the one
    # that is divided, and for that one; the values of the other layers are kept
    "sharpness_per_layer": (-2, 0, 2),
    "bias_sharpness_per_layer": (-2, -2, 0),
    "mls_per_layer": (0, -1, -1),
    "layer_bound": (0, -1, -1),
    "weight_norm": (1, 0, -1),
    "reciprocal_input_norm": (0, -1, -1),
}


def linear_layers(model):
    return [module for module in model if isinstance(module, nn.Linear)]


def rescaled(model, first, last, factor):
    """Layer `first` times `factor`, layer `last` divided by it, biases between accordingly."""
    model = copy.deepcopy(model)
    layers = linear_layers(model)
    layers[first].weight.data *= factor
    layers[last].weight.data /= factor
    for layer in layers[first:last]:
        if layer.bias is not None:
            layer.bias.data *= factor
    return model


def same(value, other):
    """Equal up to rounding, which logarithms amplify where a singular value is small."""
    return other == pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True)


def test_the_lists_of_what_rescaling_does_are_complete():
    assert sorted([*KEPT, *CHANGED, *MULTIPLIED]) == sorted(QUANTITIES)


@LAW
@given(data=st.data(), factor=FACTORS)
def test_rescaling_layers_keeps_changes_and_multiplies_what_the_lists_say(
    data, factor, draw_network, measured
):
    """W_l, b_l times a, W_k / a and the biases between times a, for l < k: f stays as it is."""
    net = draw_network(data, **DEEP_RELU)
    depth = len(linear_layers(net.model))
    first, last = sorted(data.draw(st.permutations(range(depth)))[:2])
    other = rescaled(net.model, first, last, factor)
    assert torch.allclose(net.model(net.x), other(net.x), rtol=1e-9, atol=1e-12)
    before, after = measured(net.model, net.x), measured(other, net.x)
    for name in KEPT:
        assert same(before[name], after[name]), name
    assume(not before["samples_zero_input"].any() and before["mls_per_layer"].min() > 1e-3)
    for name, (of_first, between, of_last) in MULTIPLIED.items():
        power = np.zeros(depth)
        power[first], power[first + 1 : last], power[last] = of_first, between, of_last
        assert after[name] == pytest.approx(before[name] * factor**power, rel=EXACT), name
    for name in CHANGED:
        assert after[name] != pytest.approx(before[name], rel=1e-6), name


@LAW
@given(data=st.data())
def test_rescaling_neurons_keeps_the_function_and_the_relative_flatness_of_the_other_layers(
    data, draw_network, measured
):
    """Neuron i of layer l times a_i, its weights in layer l + 1 divided by a_i."""
    net = draw_network(data, **DEEP_RELU)
    other = copy.deepcopy(net.model)
    layers = linear_layers(other)
    number = data.draw(st.integers(0, len(layers) - 2))
    width = layers[number].out_features
    drawn = data.draw(st.lists(FACTORS, min_size=width, max_size=width))
    factors = torch.tensor(drawn, dtype=torch.float64)
    layers[number].weight.data *= factors[:, None]
    layers[number + 1].weight.data /= factors
    if net.bias:
        layers[number].bias.data *= factors
    before, after = measured(net.model, net.x), measured(other, net.x)
    for name in OF_THE_FUNCTION:
        assert same(before[name], after[name]), name
    kept = np.arange(len(layers)) != number + 1
    kappa, changed = before["relative_flatness"], after["relative_flatness"]
    assert changed[kept] == pytest.approx(kappa[kept], rel=EXACT)


def test_rescaling_neurons_changes_relative_flatness_of_the_next_layer(mlp, normal, measured):
    model, x = mlp((4, 5, 3)), normal(6, 4)
    before = measured(model, x)["relative_flatness"]
    factors = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=torch.float64)
    model[0].weight.data *= factors[:, None]
    model[0].bias.data *= factors
    model[2].weight.data /= factors
    after = measured(model, x)["relative_flatness"]
    assert after[0] == pytest.approx(before[0], rel=EXACT)
    assert after[1] != pytest.approx(before[1], rel=1e-2)


@LAW
@given(data=st.data(), factor=FACTORS, sign=st.sampled_from([-1, 1]))
def test_multiplying_the_last_layer_multiplies_what_depends_on_the_outputs(
    data, factor, sign, draw_network, measured
):
    """Sensitivities by |a|, volume by |a|^N, S of the other layers by a^2, that of the last and D
    not at all."""
    net = draw_network(data)
    other = copy.deepcopy(net.model)
    for parameter in other[-1].parameters():
        parameter.data *= sign * factor
    before, after = measured(net.model, net.x), measured(other, net.x)
    for name in ("mls", "mls_per_layer", "nmls", "bound_a", "bound_b", "bound_c"):
        assert after[name] == pytest.approx(factor * before[name], rel=EXACT), name
    volume = before["log_volume"] + net.outputs * np.log(factor)
    assert same(volume, after["log_volume"])
    assert same(before["local_dimension"], after["local_dimension"])
    kappa = factor**2 * before["relative_flatness"]
    assert after["relative_flatness"] == pytest.approx(kappa, rel=EXACT)
    for name in ("sharpness_per_layer", "bias_sharpness_per_layer"):
        expected = before[name] * factor**2
        expected[-1] = before[name][-1]
        assert after[name] == pytest.approx(expected, rel=EXACT), name


@LAW
@given(data=st.data())
def test_rotating_inputs_and_outputs_keeps_every_quantity(data, draw_network, measured):
    """f(x) -> R f(Q^T x) on inputs Q x, with R and Q orthogonal, has all quantities of f."""
    net = draw_network(data)
    seeds = st.integers(0, 10**6)

    def orthogonal(size):
        generator = torch.Generator().manual_seed(data.draw(seeds))
        normal = torch.randn(size, size, dtype=torch.float64, generator=generator)
        return torch.linalg.qr(normal)[0]

    turn_in, turn_out = orthogonal(net.inputs), orthogonal(net.outputs)
    other = copy.deepcopy(net.model)
    layers = linear_layers(other)
    layers[0].weight.data = layers[0].weight.data @ turn_in.T
    layers[-1].weight.data = turn_out @ layers[-1].weight.data
    if net.bias:
        layers[-1].bias.data = turn_out @ layers[-1].bias.data
    before, after = measured(net.model, net.x), measured(other, net.x @ turn_in.T)
    for name in QUANTITIES:
        assert same(before[name], after[name]), name
