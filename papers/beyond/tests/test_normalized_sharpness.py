"""Normalized sharpness (chen2026 Def. F.3) against a minimization by torch, and what it bounds."""

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from tests.families.geometry.reference import one_sample
from tests.networks.small_networks import LINEAR, LOSSES, hessian, small, targets_for, total_loss


def measured(model, inputs, targets, loss="half-mse"):
    return flatlab.measure(model, inputs, targets, families="normalized-sharpness", **LOSSES[loss])


def by_brute_force(weight, second):
    """The minimum over logarithms of the scales, by Newton's method of torch's own Hessian."""
    d, m = second.shape
    scales = torch.zeros(d + m, dtype=torch.float64)

    def total(z):
        log = z[:d, None] + z[d:]
        return (second * torch.exp(log) + weight**2 / 4 * torch.exp(-log)).sum()

    for _ in range(60):
        gradient = torch.autograd.functional.jacobian(total, scales)
        if gradient.abs().max() < 1e-12:
            break
        curved = torch.autograd.functional.hessian(total, scales)
        step = torch.linalg.pinv(curved, hermitian=True) @ gradient
        size = 1.0
        while total(scales - size * step) > total(scales) and size > 1e-12:
            size /= 2
        scales = scales - size * step
    return float(total(scales)), torch.exp(scales[d:])


def least(model, layer, inputs, targets, loss):
    """The minimum for a layer, the squares of the scales of its columns, and which of these count.

    What no sample sees is left out.
    """
    blocks = hessian(model, f"{layer}.weight", total_loss(model, inputs, targets, loss))
    second = torch.from_numpy(np.einsum("ijij->ij", blocks).clip(min=0))
    weight = model.get_submodule(layer).weight.detach()
    rows, columns = (~(second == 0).all(axis) for axis in (1, 0))
    return *by_brute_force(weight[rows][:, columns], second[rows][:, columns]), columns


@pytest.mark.parametrize("loss", ["half-mse", "cross-entropy"])
@pytest.mark.parametrize("name", ["mlp-relu", "linear", "lenet"])
def test_it_is_the_minimum_over_all_scales_of_rows_and_columns(name, loss):
    model, inputs, labels = small(name)
    targets = targets_for(loss, labels)
    found = measured(model, inputs, targets, loss)
    total = 0.0
    for layer in LINEAR[name]:
        expected, *_ = least(model, layer, inputs, targets, loss)
        row = found.sel(layer=layer)
        assert row.normalized_sharpness.item() == pytest.approx(expected, rel=1e-6), layer
        assert row.normalized_sharpness_residual < 1e-6
        total += expected
    assert found.total_normalized_sharpness.item() == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("name", ["mlp-relu", "lenet"])
def test_what_it_bounds_is_a_sensitivity_and_below_it(name):
    """Prop. F.4, of one sample as printed and of several: the right side by autograd."""
    model, inputs, labels = small(name)
    layer = LINEAR[name][0]
    for count in (1, len(inputs)):
        x, targets = inputs[:count], targets_for("half-mse", labels[:count])
        row = measured(model, x, targets).sel(layer=layer)
        assert row.normalized_sharpness_bounded <= row.normalized_sharpness * (1 + 1e-9)
        _, squares, columns = least(model, layer, x, targets, "half-mse")
        means = []
        for one in x:
            sample = one_sample(model, {layer: model.get_submodule(layer)}, one)
            features = torch.from_numpy(sample.x[layer])[columns]
            jacobian = torch.from_numpy(sample.j[layer])[:, columns]
            means.append((jacobian**2 / squares).sum() * (features**2 * squares).sum())
        expected = float(torch.stack(means).mean().sqrt())
        assert row.normalized_sharpness_bounded.item() == pytest.approx(expected, rel=1e-4)


def test_rescaled_rows_and_columns_do_not_change_it():
    model, inputs, labels = small("mlp-relu")
    targets = targets_for("half-mse", labels)
    before = measured(model, inputs, targets)
    first, second = (model.get_submodule(name) for name in ("fc1", "fc2"))
    factors = torch.exp(torch.randn(6, dtype=torch.float64, generator=torch.manual_seed(1)))
    with torch.no_grad():
        first.weight *= factors[:, None]
        first.bias *= factors
        second.weight /= factors
    after = measured(model, inputs, targets)
    for name in ("normalized_sharpness", "normalized_sharpness_bounded"):
        assert after[name].values == pytest.approx(before[name].values, rel=1e-5)


def test_a_column_that_no_sample_sees_adds_nothing():
    model = nn.Linear(3, 2).double()
    x = torch.tensor([[1.0, 0.0, 2.0], [0.5, 0.0, -1.0]], dtype=torch.float64)
    found = measured(model, x, torch.zeros(2, 2, dtype=torch.float64))
    smaller = nn.Linear(2, 2).double()
    smaller.weight.data = model.weight.data[:, [0, 2]]
    smaller.bias.data = model.bias.data
    same = measured(smaller, x[:, [0, 2]], torch.zeros(2, 2, dtype=torch.float64))
    assert found.normalized_sharpness.item() == pytest.approx(same.normalized_sharpness.item())
    assert found.normalized_sharpness_bounded > 0
