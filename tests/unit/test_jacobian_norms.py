"""Norms of Jacobians and of features against whole matrices."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import flatlab
from flatlab.metrics.jacobian import softmax_norms

# torch warns of itself when it first differentiates forward, which torch.func.jacfwd does
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script")

WIDTHS = (4, 6, 5, 3)


def norms_of(function, inputs):
    """The spectral norm of each sample's Jacobian."""
    jacobians = [torch.func.jacrev(lambda x: function(x[None])[0])(x) for x in inputs]
    return torch.stack([torch.linalg.matrix_norm(j.detach().flatten(1), 2) for j in jacobians])


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("batch_size", [None, 3])
def test_norms_are_those_of_whole_jacobians(activation, batch_size, mlp, normal):
    model, x = mlp(WIDTHS, seed=2, activation=activation), normal(7, WIDTHS[0])
    found = flatlab.measure(model, x, families=["jacobian"], batch_size=batch_size)
    softmaxed = norms_of(lambda x: model(x).softmax(1), x)
    assert found.jacobian_norm.item() == pytest.approx(norms_of(model, x).max().item(), rel=1e-10)
    assert found.softmax_jacobian_norm.item() == pytest.approx(softmaxed.max().item(), rel=1e-10)
    np.testing.assert_allclose(found.softmax_jacobian_norm_per_sample, softmaxed, rtol=1e-9)
    outputs = model(x).detach()
    assert found.output_norm.item() == pytest.approx(outputs.square().sum().sqrt().item())


def test_features_are_the_inputs_of_each_layer(mlp, normal):
    model, x = mlp(WIDTHS, seed=2), normal(7, WIDTHS[0])
    found = flatlab.measure(model, x, families=["jacobian"])
    matrices = [x, model[:2](x), model[:4](x)]
    largest = [torch.linalg.matrix_norm(m.detach(), 2).item() for m in matrices]
    np.testing.assert_allclose(found.feature_norm, largest, rtol=1e-10)
    assert list(found.layer.values) == ["0", "2", "4"]


def test_convolutions_have_feature_maps_as_features(normal):
    convolve = nn.Conv2d(2, 3, 3, dtype=torch.float64)
    head = nn.Linear(3 * 16, 4, dtype=torch.float64)
    model = nn.Sequential(convolve, nn.ReLU(), nn.Flatten(), head)
    x = normal(5, 2, 6, 6)
    found = flatlab.measure(model, x, families=["jacobian"])
    matrices = [x.flatten(1), convolve(x).relu().flatten(1)]
    largest = [torch.linalg.matrix_norm(m.detach(), 2).item() for m in matrices]
    np.testing.assert_allclose(found.feature_norm, largest, rtol=1e-10)
    softmaxed = norms_of(lambda x: model(x).softmax(1), x).max().item()
    assert found.softmax_jacobian_norm.item() == pytest.approx(softmaxed, rel=1e-10)


def test_even_odds_of_two_classes_attain_half_the_norm(normal):
    """P = (1/2)(I - 11^T/2) at p = (1/2, 1/2): its norm is 1/2, along (1, -1)."""
    weight = normal(3)
    gram = torch.stack([weight, -weight]) @ torch.stack([weight, -weight]).T
    norm = softmax_norms(torch.zeros(1, 2), gram[None]).item()
    assert norm == pytest.approx(0.5 * torch.linalg.matrix_norm(gram, 2).sqrt().item())


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_softmax_halves_the_norm_at_least_and_knows_no_shift(data, mlp, normal):
    """||P|| <= 1/2; the same for all outputs shifted alike."""
    seed = data.draw(st.integers(0, 1000))
    outputs, width = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    model, x = mlp((width, 5, outputs), seed=seed), 3 * normal(4, width, seed=seed)
    found = flatlab.measure(model, x, families=["jacobian"])
    assert found.softmax_jacobian_norm <= 0.5 * found.jacobian_norm * (1 + 1e-9)
    model[-1].bias.data += 7
    shifted = flatlab.measure(model, x, families=["jacobian"])
    np.testing.assert_allclose(
        shifted.softmax_jacobian_norm, found.softmax_jacobian_norm, rtol=1e-7, atol=1e-12
    )
    np.testing.assert_allclose(shifted.jacobian_norm, found.jacobian_norm, rtol=1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), factor=st.floats(0.1, 10))
def test_scaled_inputs_divide_the_jacobian_of_the_same_function(seed, factor, mlp, normal):
    """f(x) = g(x / c) with c x in the place of x has J / c and c times the first features."""
    model, x = mlp(WIDTHS, seed=seed), normal(6, WIDTHS[0], seed=seed)
    before = flatlab.measure(model, x, families=["jacobian"])
    model[0].weight.data /= factor
    after = flatlab.measure(model, factor * x, families=["jacobian"])
    np.testing.assert_allclose(after.jacobian_norm, before.jacobian_norm / factor, rtol=1e-9)
    expected = before.feature_norm.values * [factor, 1, 1]
    np.testing.assert_allclose(after.feature_norm, expected, rtol=1e-9)
    np.testing.assert_allclose(after.output_norm, before.output_norm, rtol=1e-9)
