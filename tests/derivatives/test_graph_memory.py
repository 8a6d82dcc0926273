"""Graphs that are kept from product to product stay within what derivatives may take."""

import pytest
import torch
from torch import nn

import flatlab
from flatlab.derivatives.memory import held_while
from flatlab.metrics import hessian, sharpness, spectrum


@pytest.fixture
def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 3)).double()


def test_what_autograd_keeps_is_counted_once(network):
    x = torch.randn(50, 20, dtype=torch.float64)
    kept = held_while(lambda: network[1](network[0](x)))
    # The input of the first layer and its weight, and the output of tanh.
    assert 8 * 50 * (20 + 30) <= kept <= 8 * (50 * (20 + 30) + 20 * 30)
    assert held_while(lambda: None) == 0


@pytest.mark.parametrize("family", ["hessian", "spectrum"])
def test_curvature_takes_as_many_samples_as_fit(network, monkeypatch, family):
    x, y = torch.randn(40, 20, dtype=torch.float64), torch.arange(40) % 3
    how = {"families": family, "loss": "cross-entropy"}
    parts, batches_of = [], hessian.batches_of

    def noted(*given):
        parts.append([len(inputs) for inputs, _ in batches_of(*given)])
        return batches_of(*given)

    for module in (hessian, spectrum):
        monkeypatch.setattr(module, "batches_of", noted)
    whole = flatlab.measure(network, x, y, **how)
    blocks = flatlab.measure(network, x, y, memory=100_000, **how)
    assert parts[0] == [40]
    assert sum(parts[1]) == 40
    assert len(parts[1]) > 2
    values = {"hessian": ["hessian_lambda_max", "gauss_newton_lambda_max"]}
    for name in values.get(family, ["largest_eigenvalue"]):
        assert blocks[name].values == pytest.approx(whole[name].values, rel=1e-7)
    flatlab.measure(network, x, y, memory=100_000, batch_size=25, **how)
    assert parts[2] == [25, 15]


def test_sharpness_evaluates_as_many_samples_as_fit(network, monkeypatch):
    x, y = torch.randn(40, 20, dtype=torch.float64), torch.arange(40) % 3
    radii = {"average-standard-l2": [0.1], "worst-standard-linf": [0.001]}
    how = {"families": "sharpness", "sharpness_radii": radii, "loss": "cross-entropy"}
    sizes, batch_loss = [], sharpness.BatchLoss

    def noted(*given):
        sizes.append(given[4])
        return batch_loss(*given)

    monkeypatch.setattr(sharpness, "BatchLoss", noted)
    whole, blocks = (flatlab.measure(network, x, y, memory=m, **how) for m in (None, 20_000))
    assert sizes[0] > 40 > sizes[1] > 1
    values, theirs = blocks["sharpness_at_radius"].values, whole["sharpness_at_radius"].values
    assert values == pytest.approx(theirs, rel=1e-9, nan_ok=True)
