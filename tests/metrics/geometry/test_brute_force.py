"""Second derivatives by double backward, losses and accuracies sample by sample."""

import numpy as np
import pytest
import torch
from torch import nn

from flatlab.losses import half_mse
from flatlab.metrics import accuracy
from flatlab.metrics._quantity import settings_of
from tests.networks.small_networks import flatness, hessian, total_loss

EXACT = 1e-10
WIDTHS = (5, 8, 7, 3)  # 135 parameters


@pytest.mark.parametrize("kind", ["half-mse", "mean-mse"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_relative_flatness_equals_its_definition_by_the_hessian(
    activation, bias, kind, mlp, normal, measured
):
    """Of the last layer always, of every layer where the activations are piecewise linear."""
    model, inputs = mlp(WIDTHS, activation=activation, bias=bias), normal(12, WIDTHS[0])
    values = measured(model, inputs, relative_flatness_loss=kind)["relative_flatness"]
    loss = total_loss(model, inputs, normal(len(inputs), WIDTHS[-1], seed=7), kind)
    names = [name for name, _ in model.named_parameters() if name.endswith("weight")]
    for number, name in enumerate(names):
        weight = model.state_dict()[name].numpy()
        expected, *_ = flatness(weight, hessian(model, name, loss))
        agrees = values[number] == pytest.approx(expected, rel=EXACT)
        assert agrees == (activation == "relu" or number == len(names) - 1), name


def accuracy_reference(splits, outputs, gap):
    """Losses and accuracies, sample by sample, and one of the definitions of the gap."""
    result = {}
    for name in ("train", "test"):
        split, losses, right = getattr(splits, name), [], []
        for f, target, label in zip(outputs[name], split.targets, split.labels, strict=True):
            losses.append(
                sum((a - b) ** 2 for a, b in zip(f.tolist(), target.tolist(), strict=True)) / 2
            )
            winner = min(k for k in range(len(f)) if f[k] == max(f))  # ties: the lowest
            right.append(winner == int(label))
        result[f"{name}_loss"] = np.mean(losses)
        result[f"{name}_accuracy"] = 100 * np.mean(right)
    if gap == "accuracy":
        result["generalization_gap"] = result["train_accuracy"] - result["test_accuracy"]
    else:
        result["generalization_gap"] = result["test_loss"] - result["train_loss"]
    return result


@pytest.mark.parametrize("gap", ["accuracy", "loss"])
def test_every_quantity_of_accuracy_equals_its_definition(gap, stripes):
    from flatlab.data._tensors import prepare

    splits = prepare(stripes, {"classes": "all", "scaling": "unit"})
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).double()
    nn.init.normal_(model[1].weight, generator=torch.Generator().manual_seed(0))
    model[1].bias.data.zero_()
    model[1].weight.data[2] = model[1].weight.data[0]  # outputs 0 and 2 always tie
    with torch.no_grad():
        outputs = {name: model(getattr(splits, name).inputs) for name in ("train", "test")}
    tied = outputs["train"][:, 0] == outputs["train"].max(1).values
    assert 0 < sum(tied & (splits.train.labels == 0)) < sum(tied)
    expected = accuracy_reference(splits, outputs, gap)
    settings = settings_of("accuracy", {"generalization_gap": gap}, half_mse.Loss())
    values = accuracy.measure_splits(model, splits, settings).values
    assert set(values) == set(expected)
    for name, value in expected.items():
        assert values[name] == pytest.approx(value, rel=EXACT), name
