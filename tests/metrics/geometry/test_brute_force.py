"""Second derivatives by double backward, losses and accuracies sample by sample."""

import numpy as np
import pytest
import torch
from torch import nn

from flatlab.losses import half_mse
from flatlab.metrics import accuracy
from flatlab.metrics._quantity import settings_of

EXACT = 1e-10
WIDTHS = (5, 8, 7, 3)  # 135 parameters
OUTPUTS = WIDTHS[-1]

CASES = [
    pytest.param((activation, bias, seed), id=f"{activation}-{'bias' if bias else 'plain'}-{seed}")
    for activation in ("relu", "tanh")
    for bias in (True, False)
    for seed in (0, 1)
]


@pytest.fixture(params=CASES)
def case(request, mlp, normal):
    """A network, its inputs, and whether it is piecewise linear."""
    activation, bias, seed = request.param
    model = mlp(WIDTHS, seed=seed, activation=activation, bias=bias)
    return model, normal(12, WIDTHS[0]), activation == "relu"


def loss_of(model, inputs, targets, kind):
    """The loss as a function of some of the parameters, by name."""

    def function(parameters):
        error = torch.func.functional_call(model, parameters, inputs) - targets
        return (error**2).sum(1).mean() / 2 if kind == "half-mse" else (error**2).mean()

    return function


def hessian_of(model, name, loss):
    """The second derivatives of a loss with respect to one parameter, by double backward."""
    value = dict(model.named_parameters())[name].detach()
    return torch.autograd.functional.hessian(lambda tensor: loss({name: tensor}), value).numpy()


def relative_flatness(weight, hessian):
    """Sum over the neurons s, s' of <w_s, w_s'> Tr H_ss', H_ss' the second derivatives."""
    return sum(
        weight[s] @ weight[t] * np.trace(hessian[s, :, t, :])
        for s in range(len(weight))
        for t in range(len(weight))
    )


@pytest.mark.parametrize("kind", ["half-mse", "mean-mse"])
def test_relative_flatness_equals_its_definition_by_the_hessian(case, kind, normal, measured):
    """Of the last layer always, of every layer where the activations are piecewise linear."""
    model, inputs, piecewise_linear = case
    values = measured(model, inputs, relative_flatness_loss=kind)["relative_flatness"]
    loss = loss_of(model, inputs, normal(len(inputs), OUTPUTS, seed=7), kind)
    names = [name for name, _ in model.named_parameters() if name.endswith("weight")]
    for number, name in enumerate(names):
        weight = model.state_dict()[name].numpy()
        expected = relative_flatness(weight, hessian_of(model, name, loss))
        agrees = values[number] == pytest.approx(expected, rel=EXACT)
        assert agrees == (piecewise_linear or number == len(names) - 1), name


def test_sharpness_is_the_trace_of_the_hessian_of_piecewise_linear_networks_alone(
    case, normal, measured
):
    """At any residual: second derivatives of the outputs vanish almost everywhere."""
    model, inputs, piecewise_linear = case
    loss = loss_of(model, inputs, 10 * normal(len(inputs), OUTPUTS, seed=7), "half-mse")
    trace = 0.0
    for name, parameter in model.named_parameters():
        square = hessian_of(model, name, loss).reshape(parameter.numel(), parameter.numel())
        trace += np.trace(square)
    agrees = measured(model, inputs)["sharpness"] == pytest.approx(trace, rel=EXACT)
    assert agrees == piecewise_linear


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
