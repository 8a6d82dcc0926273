"""Feature robustness over all matrices (petzka2021 Thm. 14) and nearby labels (Def. 9)."""

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab.losses import loss_of
from tests.networks.small_networks import (
    LINEAR,
    LOSSES,
    flatness,
    hessian,
    small,
    targets_for,
    total_loss,
)


def measured(model, inputs, targets, loss="half-mse", **options):
    return flatlab.measure(
        model, inputs, targets, families="uniform-robustness", **LOSSES[loss], **options
    )


@pytest.mark.parametrize("loss", ["half-mse", "cross-entropy"])
@pytest.mark.parametrize("name", ["mlp-tanh", "linear"])
def test_no_matrix_does_more_than_what_is_found(name, loss):
    """Of many matrices of norm 1, orthogonal and of lower rank, drawn here."""
    model, inputs, labels = small(name)
    targets = targets_for(loss, labels)
    found = measured(model, inputs, targets, loss, robustness_deltas=[0.2], uniform_starts=4)
    function = total_loss(model, inputs, targets, loss)
    before, generator = float(function({}).detach()), np.random.default_rng(1)
    for layer in LINEAR[name]:
        weight, values = model.get_submodule(layer).weight.detach(), []
        width = weight.shape[1]
        for rank in list(range(1, width + 1)) * 40:
            left, _ = np.linalg.qr(generator.standard_normal((width, rank)))
            right, _ = np.linalg.qr(generator.standard_normal((width, rank)))
            turned = weight + weight @ torch.from_numpy(0.2 * left @ right.T)
            values.append(float(function({f"{layer}.weight": turned}).detach()))
        largest = found.largest_feature_robustness.sel(layer=layer).item()
        assert largest >= max(values) - before


@pytest.mark.parametrize("loss", ["half-mse", "cross-entropy"])
@pytest.mark.parametrize("name", ["mlp-relu", "lenet"])
def test_the_bound_and_the_slope_are_as_printed(name, loss):
    model, inputs, labels = small(name)
    targets = targets_for(loss, labels)
    found = measured(model, inputs, targets, loss, robustness_deltas=[0.1])
    function = total_loss(model, inputs, targets, loss)
    for layer in LINEAR[name]:
        weight = model.get_submodule(layer).weight.detach()
        _, kappa, _ = flatness(weight.numpy(), hessian(model, f"{layer}.weight", function))
        row = found.sel(layer=layer, delta_index="0")
        expected = 0.1**2 * len(weight) / 2 * kappa
        assert row.feature_robustness_bound.item() == pytest.approx(expected, rel=1e-6)
        variable = weight.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(function({f"{layer}.weight": variable}), variable)
        slope = 0.1 * torch.linalg.matrix_norm(weight.T @ gradient, "nuc")
        assert row.feature_robustness_slope.item() == pytest.approx(slope.item(), rel=1e-6)
    others = [each for each in found.layer.values if each not in LINEAR[name]]
    assert found.sel(layer=others).feature_robustness_bound.isnull().all()


def test_theorem_14_holds_at_a_minimum_and_not_elsewhere():
    """Half-MSE of a linear model with targets that it fits: E_F is the quadratic form itself."""
    model, inputs, _ = small("linear")
    fitted = model(inputs).detach()
    found = measured(model, inputs, fitted, robustness_deltas=[0.1, 0.3])
    assert found.feature_robustness_slope.values == pytest.approx(0, abs=1e-12)
    bound, largest = found.feature_robustness_bound, found.largest_feature_robustness
    assert (largest <= bound).all()
    assert (largest > 0).all()
    away = measured(model, inputs, fitted + 5, robustness_deltas=[0.01])
    assert (away.largest_feature_robustness > away.feature_robustness_bound).all()
    assert (away.feature_robustness_slope > 0).all()


def test_labels_nearby_are_compared_with_each_samples_own():
    model = nn.Linear(2, 2).double()
    x = torch.tensor([[1.0, 0.0], [1.0, 0.05], [0.0, 3.0], [0.9, 0.0]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 1, 0])
    found = measured(model, x, labels, "cross-entropy", robustness_deltas=[0.07, 0.2])
    outputs, loss = model(x).detach(), loss_of(LOSSES["cross-entropy"])
    by_label = [
        loss.values(outputs, nn.functional.one_hot(torch.full((4,), k), 2).double())
        for k in range(2)
    ]
    change = (by_label[0] - by_label[1]).abs()
    # of the first two each is near the other; of delta 0.2 the last one, too, is near both
    expected = [
        (change[1] + change[0]) / 4,
        (change[1] + max(change[0], change[3]) + change[1]) / 4,
    ]
    assert found.label_change[0].values == pytest.approx([each.item() for each in expected])
    assert found.neighbours[0].values == pytest.approx([2 / 4, 6 / 4])
