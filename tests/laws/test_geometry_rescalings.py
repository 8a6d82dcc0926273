"""What rescaling a network changes and what it does not, on random networks.

Multiplying one layer and dividing a later one leaves the function of a ReLU network as it is.
"""

import copy

import numpy as np
import pytest
import torch
from hypothesis import assume
from hypothesis import strategies as st
from torch import nn

from flatlab.families.geometry import QUANTITIES
from tests.laws.relations import EXACT, FACTORS, law, layers_of, multiply, rescaled, scaled_neurons

DEEP_RELU = {"activations": ["relu"], "hidden": (1, 3)}

OF_THE_FUNCTION = [
    *("jacobian_frobenius", "g", "mls", "mls_per_sample", "bound_a", "normalized_mls"),
    *("input_invariant_mls", "log_volume", "log_volume_per_sample", "log_volume_of_three"),
    *("log_mean_volume", "local_dimension", "local_dimension_per_sample"),
]
COUNTS = [name for name in QUANTITIES if name.startswith("samples_")]
COUNTS += ["violations", "shared", "finite", "layers_left_out"]
OF_PRODUCTS = [  # of what is multiplied and what is divided
    *("bound_b", "bound_c", "weighted_mls", "network_input_invariant_mls", "relative_flatness"),
    *("elementwise_adaptive_trace", "matrix_normalized_sharpness"),
    *("stability_trick_ratio", "linear_stability_ratio"),
]
KEPT = [*OF_THE_FUNCTION, *COUNTS, *OF_PRODUCTS]
CHANGED = [
    *("sharpness", "root_sharpness", "sharpness_per_sample", "nmls", "bound_d", "nmls_bound"),
    *("nmls_bound_layerwise", "nmls_bound_with_bias"),
    *("log_volume_bound", "network_log_volume_bound"),
]
MULTIPLIED = {
    # by which power of the factor: for the layer that is multiplied, for those up to the one
    # that is divided, and for that one; the values of the other layers are kept
    "sharpness_per_layer": (-2, 0, 2),
    "bias_sharpness_per_layer": (-2, -2, 0),
    "sensitivity": (0, -1, -1),
    "mls_per_layer": (0, -1, -1),
    "layer_bound": (0, -1, -1),
    "corrected_bound": (0, -1, -1),
    "weight_norm": (1, 0, -1),
    "reciprocal_input_norm": (0, -1, -1),
}
SUMS = ["network_log_volume", "bound_by_norm"]  # tested by their parts


def same(value, other):
    """Equal up to rounding, which logarithms amplify where a singular value is small."""
    return other == pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True)


def powers(depth, first, last, exponents):
    """The exponent of the factor by which each layer's value is multiplied."""
    result = np.zeros(depth)
    result[first], result[first + 1 : last], result[last] = exponents
    return result


def test_the_lists_of_what_rescaling_does_are_complete():
    assert sorted([*KEPT, *CHANGED, *MULTIPLIED, *SUMS]) == sorted(QUANTITIES)


def check_rescaling(net, data, factor, measured):
    """Draws two layers, and compares the network with the rescaled one."""
    depth = len(layers_of(net.model))
    first, last = sorted(data.draw(st.permutations(range(depth)))[:2])
    other = rescaled(net.model, first, last, factor)
    assert torch.allclose(net.model(net.x), other(net.x), rtol=1e-9, atol=1e-12)
    before, after = net.values, measured(other, net.x)
    for name in KEPT:
        assert same(before[name], after[name]), name
    b_and_c, others = np.split(before["bound_by_norm"], [2], axis=1)
    b_and_c_after, others_after = np.split(after["bound_by_norm"], [2], axis=1)
    assert same(b_and_c, b_and_c_after)
    volumes = net.mean_volumes()
    volumes *= factor ** (net.outputs * powers(depth, first, last, (0, -1, -1)))
    with np.errstate(divide="ignore"):  # no layer has full rank
        assert same(np.log(volumes.sum()), after["network_log_volume"])
    assume(not before["samples_zero_input"].any() and before["mls_per_layer"].min() > 1e-3)
    for name, exponents in MULTIPLIED.items():
        expected = before[name] * factor ** powers(depth, first, last, exponents)
        assert after[name] == pytest.approx(expected, rel=EXACT, nan_ok=True), name
    for name in CHANGED:
        # of some sample: others may not reach the two layers
        assert (abs(after[name] / before[name] - 1) > 1e-6).any(), name
    assert (abs(others_after / others - 1) > 1e-6).all()


@law(factor=FACTORS)
def test_rescaling_layers_does_what_the_lists_say(data, factor, draw_network, measured):
    """W_l, b_l times a, W_k / a and the biases between times a, for l < k: f stays as it is."""
    check_rescaling(draw_network(data, **DEEP_RELU), data, factor, measured)


@law(factor=FACTORS)
def test_rescaling_convolutions_does_what_the_lists_say(data, factor, draw_convolutional, measured):
    """The same with kernels, and pooling between."""
    net = draw_convolutional(data, activations=["relu"], norm=False)
    check_rescaling(net, data, factor, measured)


@law(factor=FACTORS)
def test_rescaling_with_statistics_keeps_all_but_sharpness(
    data, factor, draw_convolutional, measured
):
    """Kernel, bias and running mean times a, running variance times a^2: f stays as it is."""
    net = draw_convolutional(data)
    assume(isinstance(net.model[1], nn.BatchNorm2d))
    other = copy.deepcopy(net.model)
    multiply(other[0], factor)
    other[1].running_mean *= factor
    other[1].running_var *= factor**2
    before, after = net.values, measured(other, net.x)
    for name in (*OF_THE_FUNCTION, *COUNTS, *OF_PRODUCTS, "sensitivity", "nmls"):
        assert same(before[name], after[name]), name
    power = np.zeros(len(before["weight_norm"]))
    power[0] = -2
    for name in ("sharpness_per_layer", "bias_sharpness_per_layer"):
        assert after[name] == pytest.approx(before[name] * factor**power, rel=EXACT), name


@law()
def test_rescaling_neurons_keeps_the_flatness_of_other_layers(data, draw_network, measured):
    """Neuron i of layer l times a_i, its weights in layer l + 1 divided by a_i."""
    net = draw_network(data, **DEEP_RELU)
    depth = len(layers_of(net.model))
    number = data.draw(st.integers(0, depth - 2))
    other = scaled_neurons(data, net.model, number)
    before, after = net.values, measured(other, net.x)
    for name in (*OF_THE_FUNCTION, "elementwise_adaptive_trace", "network_input_invariant_mls"):
        assert same(before[name], after[name]), name
    kept = np.arange(depth) != number + 1
    kappa, changed = before["relative_flatness"], after["relative_flatness"]
    assert changed[kept] == pytest.approx(kappa[kept], rel=EXACT)


@law()
def test_rescaling_inputs_keeps_the_input_invariant_sensitivity(data, draw_network, measured):
    """x -> diag(s) x and W_1 -> W_1 diag(s)^-1: f, its outputs' sharpness but for W_1 as before."""
    net = draw_network(data)
    drawn = data.draw(st.lists(FACTORS, min_size=net.inputs, max_size=net.inputs))
    factors = torch.tensor(drawn, dtype=torch.float64)
    other = copy.deepcopy(net.model)
    other[0].weight.data /= factors
    before, after = net.values, measured(other, net.x * factors)
    for name in ("input_invariant_mls", "elementwise_adaptive_trace"):
        assert after[name] == pytest.approx(before[name], rel=EXACT), name
    for name in ("sharpness_per_layer", "mls_per_layer", "relative_flatness"):
        assert after[name][1:] == pytest.approx(before[name][1:], rel=EXACT), name


@law(factor=FACTORS, sign=st.sampled_from([-1, 1]))
def test_the_last_layer_multiplies_what_is_of_the_outputs(data, factor, sign, draw_any, measured):
    """Sensitivities by |a|, G by a^2, volume by |a|^N, S of the other layers by a^2, that of the
    last and D not at all."""
    net = draw_any(data)
    other = copy.deepcopy(net.model)
    multiply(other[-1], sign * factor)
    before, after = net.values, measured(other, net.x)
    for name in ("mls", "mls_per_layer", "sensitivity", "nmls", "bound_a", "bound_b", "bound_c"):
        # of one layer, whose S is kept, B and C follow its norm
        assert after[name] == pytest.approx(factor * before[name], rel=EXACT), name
    assert after["g"] == pytest.approx(factor**2 * before["g"], rel=EXACT)
    for name in ("log_volume", "log_volume_per_sample", "log_mean_volume", "network_log_volume"):
        assert same(before[name] + net.outputs * np.log(factor), after[name]), name
    three = min(3, net.outputs) * np.log(factor)
    assert same(before["log_volume_of_three"] + three, after["log_volume_of_three"])
    for name in ("local_dimension", "local_dimension_per_sample"):
        assert same(before[name], after[name]), name
    kappa = factor**2 * before["relative_flatness"]
    assert after["relative_flatness"] == pytest.approx(kappa, rel=EXACT, nan_ok=True)
    for name in ("sharpness_per_layer", "bias_sharpness_per_layer"):
        expected = before[name] * factor**2
        expected[-1] = before[name][-1]
        assert after[name] == pytest.approx(expected, rel=EXACT), name


@law()
def test_rotations_keep_every_quantity_without_coordinates(data, draw_network, measured):
    """f(x) -> R f(Q^T x) on inputs Q x, with R and Q orthogonal, has the quantities of f.

    But for those that single parameters or inputs enter.
    """
    net = draw_network(data)
    seeds = st.integers(0, 10**6)

    def orthogonal(size):
        generator = torch.Generator().manual_seed(data.draw(seeds))
        normal = torch.randn(size, size, dtype=torch.float64, generator=generator)
        return torch.linalg.qr(normal)[0]

    turn_in, turn_out = orthogonal(net.inputs), orthogonal(net.outputs)
    other = copy.deepcopy(net.model)
    layers = layers_of(other)
    layers[0].weight.data = layers[0].weight.data @ turn_in.T
    layers[-1].weight.data = turn_out @ layers[-1].weight.data
    if net.bias:
        layers[-1].bias.data = turn_out @ layers[-1].bias.data
    before, after = net.values, measured(other, net.x @ turn_in.T)
    of_coordinates = {"elementwise_adaptive_trace", "input_invariant_mls"}
    for name in QUANTITIES.keys() - of_coordinates - {"network_input_invariant_mls"}:
        assert same(before[name], after[name]), name
