"""What must hold for the representations in every network, on random ones."""

import copy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import nn

import flatlab
from flatlab.families.representations import QUANTITIES
from tests.laws.relations import EXACT, FACTORS, Network, in_order, law, layers_of, rescaled
from tests.networks.written import Written
from tests.refusals import refused

OF_THE_FUNCTION_AND_SCALE = (
    *("normalized_feature_mls", "feature_dimension", "collapse_within"),
    *("linear_share", "linear_share_within", "head_share"),
)
CLASSES = torch.tensor([0, 1, 0, 1, 1, 0])


def measured(net, labels=CLASSES):
    """The quantities of representations."""
    return flatlab.measure(net.model, net.x, labels[: len(net.x)], families="representations")


def same(value, other):
    return other == pytest.approx(value, rel=1e-7, abs=1e-9, nan_ok=True)


def with_outputs_read(net):
    """A layer behind the outputs that reads them and changes nothing."""
    last = nn.Linear(net.outputs, net.outputs, bias=False).double()
    nn.init.eye_(last.weight)
    return replace(net, model=nn.Sequential(*net.model, last))


@law()
def test_at_the_output_they_are_the_quantities_of_geometry(data, draw_any):
    net = draw_any(data)
    found = measured(with_outputs_read(net)).isel(layer=-1)
    values = net.values
    for name, other in (
        ("feature_sensitivity", "g"),
        ("feature_mls", "mls"),
        ("feature_mls_per_sample", "mls_per_sample"),
        ("feature_dimension", "local_dimension"),
    ):
        assert same(values[other], found[name].values), name
    lengths = net.x.flatten(1).norm(dim=1) / net.model(net.x).detach().norm(dim=1)
    assert same((values["mls_per_sample"] * lengths.numpy()).mean(), found.normalized_feature_mls)
    if net.outputs <= net.inputs:
        assert same(values["log_volume"], found.feature_log_volume)
        assert found.feature_samples_rank_deficient == values["samples_rank_deficient"]


@law()
def test_permuting_neurons_changes_nothing(data, draw_network):
    net = draw_network(data, hidden=(1, 3))
    other = copy.deepcopy(net.model)
    for layer, following in pairwise(layers_of(other)):
        order = torch.tensor(data.draw(st.permutations(range(layer.out_features))))
        layer.weight.data = layer.weight.data[order]
        if net.bias:
            layer.bias.data = layer.bias.data[order]
        following.weight.data = following.weight.data[:, order]
    before, after = measured(net), measured(replace(net, model=other))
    assert {*before} == {*QUANTITIES}
    for name in before:
        assert same(before[name].values, after[name].values), name


@law(factor=FACTORS)
def test_rescaling_layers_changes_what_depends_on_the_scale(data, factor, draw_network):
    """And each bound over what it bounds; the norms of A^l follow the factor."""
    net = draw_network(data, activations=["relu"], hidden=(1, 3))
    depth = len(layers_of(net.model))
    first, last = sorted(data.draw(st.permutations(range(depth)))[:2])
    other = replace(net, model=rescaled(net.model, first, last, factor))
    before, after = measured(net), measured(other)
    for name in OF_THE_FUNCTION_AND_SCALE:
        assert same(before[name].values, after[name].values), name
    between = (np.arange(depth) > first) & (np.arange(depth) <= last)
    power = np.where(between, factor, 1.0)
    squares = before.feature_sensitivity * power**2
    assert after.feature_sensitivity.values == pytest.approx(squares.values, rel=EXACT)
    assert after.feature_mls.values == pytest.approx((before.feature_mls * power).values, rel=EXACT)

    def over_what_they_bound(found):
        norms = found.feature_sensitivity_per_sample**0.5
        yield found.representation_bound_per_sample / norms
        yield found.head_bound_per_sample / found.head_frobenius_per_sample

    ratios = over_what_they_bound(before), over_what_they_bound(after)
    for ratio, other_ratio in zip(*ratios, strict=True):
        assert same(ratio.values, other_ratio.values)


def test_the_bounds_hold_sample_by_sample(linear_networks):
    """Of every layer and of what the head sees, and in the mean of the penultimate features."""
    finite = 0
    for net in linear_networks:
        found = measured(net)
        norms = found.feature_sensitivity_per_sample.values**0.5
        bounds = found.representation_bound_per_sample.values
        in_order(norms, bounds)
        in_order(found.head_frobenius_per_sample.values, found.head_bound_per_sample.values)
        assert not found.representation_violations.any()
        assert not found.head_violations
        finite += np.isfinite(bounds).sum()
        further = [f"penultimate_bound{end}" for end in ("", "_by_layer", "_by_sharpness")]
        in_order(norms[:, -1].mean(), *(float(found[name]) for name in further))
        assert found.representation_bound_infinite.values == pytest.approx(np.isinf(bounds).sum(0))
        width = net.model[-1].in_features
        assert np.isinf(found.penultimate_bound) or width <= net.outputs
        assert 0 <= found.head_share <= 1 + EXACT or np.isnan(found.head_share)
        if width <= net.outputs:
            assert np.isnan(found.head_share) or found.head_share == pytest.approx(1)
    assert finite > len(linear_networks)


def test_dimensions_and_norms_are_in_order(networks):
    """1 <= ||A||_F^2 / ||A||_2^2 <= dimension <= rank, for each layer with A other than zero."""
    for net in networks[::3]:
        found = measured(net)
        largest = found.feature_mls_per_sample.values
        frobenius = found.feature_sensitivity_per_sample.values
        in_order(largest**2, frobenius, largest**2 * net.inputs)
        in_order(found.feature_mls.values**2, found.feature_sensitivity.values)
        dimension = found.feature_dimension.values
        defined = ~np.isnan(dimension)
        in_order(1, dimension[defined], net.inputs)


@law()
def test_both_shares_are_one_in_a_linear_network(data, draw_network):
    net = draw_network(data)
    found = measured(replace(net, model=nn.Sequential(*layers_of(net.model))))
    for name in ("linear_share", "linear_share_within"):
        assert found[name].values == pytest.approx(np.ones(found.sizes["layer"])), name


@law()
def test_features_of_the_class_alone_have_collapsed(data, normal):
    """NC1 = 0 where x depends on the class alone and means are distinct."""
    seed, count = data.draw(st.integers(0, 10**6)), data.draw(st.integers(2, 4))
    torch.manual_seed(seed)
    width = data.draw(st.integers(count, 6))
    model = nn.Sequential(nn.Linear(width, 5), nn.Tanh(), nn.Linear(5, count)).double()
    labels = torch.arange(3 * count) % count
    net = Network(model, normal(count, width, seed=seed)[labels], width, count, True)
    found = measured(net, labels)
    assert found.collapse_within.values == pytest.approx(0, abs=1e-12)


def residual(width, activation):
    """x + activation(W x)."""
    inner = nn.Linear(width, width).double()
    return Written(lambda net, x: x + activation(net.inner(x)), inner=inner)


@law(depth=st.integers(1, 3), width=st.integers(2, 6), seed=st.integers(0, 10**6))
def test_residual_networks_are_bounded_by_their_blocks(depth, width, seed, normal):
    """||J||_2 - ||W_L||_2 <= sum over the blocks of ||W_l||_2 ||df/dW_l||_F / ||x^l||.

    For each sample; chen2026 App. B, by which x + phi(W x) is no cut between x and W x.
    """
    torch.manual_seed(seed)
    blocks = [residual(width, (nn.Tanh(), nn.ReLU())[(seed + k) % 2]) for k in range(depth)]
    model = nn.Sequential(*blocks, nn.Linear(width, 3).double())
    net = Network(model, normal(5, width, seed=seed), width, 3, True)
    parts = [
        np.linalg.norm(layer.weight.numpy(), 2) * (layer.weight2 / layer.x2).sqrt().numpy()
        for layer in net.layers[:-1]
    ]
    head = np.linalg.norm(model[-1].weight.detach().numpy(), 2)
    in_order(net.sigma[:, 0] - head, sum(parts) + 1e-12)  # of rounding
    if depth == 1:
        how = {"families": "representations", "representations": ["bounds"]}
        refused("does not alone read the inputs", flatlab.measure, model, net.x, **how)
