"""What rescaling a network or its inputs changes of adaptive sharpness and of normalized MLS."""

import copy
from itertools import pairwise

import pytest
import torch
from hypothesis import strategies as st
from torch import nn

import flatlab
from tests.laws.relations import law

EXACT = 1e-8
FACTORS = st.floats(0.1, 0.6) | st.floats(1.7, 10)
OPTIONS = {"draws": 4, "trace": "exact", "ascent_steps": 0, "tolerance": 1e-9, "drop_above": None}


def measured(model, inputs, outputs):
    targets = torch.eye(max(outputs, len(inputs)), dtype=torch.float64)[: len(inputs), :outputs]
    return flatlab.measure(model, inputs, targets, families=["adaptive"], **OPTIONS)


def same(first, second, names):
    for name in names:
        assert float(first[name]) == pytest.approx(float(second[name]), rel=EXACT, abs=1e-12), name


@law(25)
def test_rescaled_neurons_change_neither_sharpness_nor_norms(draw_network, data):
    """Each neuron by a factor of its own, undone behind it: f is the same function."""
    drawn = draw_network(data, activations=["relu"], hidden=(1, 3))
    rescaled = copy.deepcopy(drawn.model)
    layers = [module for module in rescaled if isinstance(module, nn.Linear)]
    for first, second in pairwise(layers):
        width = first.out_features
        factors = data.draw(st.lists(FACTORS, min_size=width, max_size=width))
        factor = torch.tensor(factors, dtype=torch.float64)
        first.weight.data *= factor[:, None]
        if first.bias is not None:
            first.bias.data *= factor
        second.weight.data /= factor
    before, after = (measured(m, drawn.x, drawn.outputs) for m in (drawn.model, rescaled))
    names = ["adaptive_sharpness", "adaptive_sharpness_error", "elementwise_adaptive_trace"]
    same(before, after, [*names, "normalized_mls", "mls", "sample_loss"])


@law(25)
def test_scaled_inputs_change_no_normalized_norm(draw_network, data):
    """g(x) = f(x / c) at c x: the first layer undoes the scale of the inputs."""
    drawn = draw_network(data)
    factor = data.draw(FACTORS)
    rescaled = copy.deepcopy(drawn.model)
    rescaled[0].weight.data /= factor
    before = measured(drawn.model, drawn.x, drawn.outputs)
    after = measured(rescaled, factor * drawn.x, drawn.outputs)
    same(before, after, ["normalized_mls", "adaptive_sharpness", "elementwise_adaptive_trace"])
    assert float(after.mls) == pytest.approx(float(before.mls) / factor, rel=EXACT)


@law(25)
def test_norms_lie_where_they_must(draw_network, data):
    """mean^2 of ||J|| ||x|| <= normalized MLS <= mean ||x||^2 ||J||_F^2; sigmoids contract."""
    drawn = draw_network(data)
    raw = flatlab.measure(
        drawn.model,
        drawn.x,
        torch.zeros(len(drawn.x), drawn.outputs, dtype=torch.float64),
        families=["adaptive", "geometry"],
        **{**OPTIONS, "outputs": "network"},
    )
    squares = drawn.x.square().sum(1).numpy()
    upper = float((squares * raw.jacobian_frobenius.values**2).mean())
    assert float(raw.normalized_mls) <= upper * (1 + EXACT)
    behind = measured(drawn.model, drawn.x, drawn.outputs)
    assert float(behind.mls) <= float(raw.mls) / 4 * (1 + EXACT)
