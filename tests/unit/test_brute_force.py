"""Every quantity against a plain computation, one sample, one output and one parameter at a time.

The reference asks autograd for the gradient of each output of each sample with respect to each
parameter and each layer's input; nothing of it is shared with the package.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.linalg import norm
from torch import nn

from flatlab.metrics import accuracy, geometry

EXACT = 1e-10
ROUNDING = 1e-13  # absolute, where the exact value is 0
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


def gradients(model, sample):
    """Of one sample: layer inputs, df/dx^l, and df_k/dW_l, df_k/db_l for each output k."""
    x, inputs = sample.clone().requires_grad_(), []
    for module in model:
        if isinstance(module, nn.Linear):
            inputs.append(x)
        x = module(x)
    layers = [module for module in model if isinstance(module, nn.Linear)]
    wanted = {
        "jacobian": inputs,
        "weight": [layer.weight for layer in layers],
        "bias": [layer.bias for layer in layers if layer.bias is not None],
    }
    result = {
        name: [
            np.stack([torch.autograd.grad(f, tensor, retain_graph=True)[0].numpy() for f in x])
            for tensor in tensors
        ]
        for name, tensors in wanted.items()
    }
    return SimpleNamespace(x=[tensor.detach().numpy() for tensor in inputs], **result)


@np.errstate(divide="ignore")  # inputs of zero make bounds infinite
def geometry_reference(model, inputs, factor):
    """Every quantity of the family, written as its definition.

    factor: of the loss, 1 for half-mse and 2 / outputs for mean-mse.
    """
    samples = [gradients(model, sample) for sample in inputs]
    weights = [m.weight.detach().numpy() for m in model if isinstance(m, nn.Linear)]
    layers = range(len(weights))  # k is the number of a layer
    has_bias = bool(samples[0].bias)

    def mean(function):
        return np.mean([function(sample) for sample in samples])

    def per_layer(function):
        return np.array([function(k) for k in layers])

    spectral = [norm(weight, 2) for weight in weights]
    of_weights = per_layer(lambda k: mean(lambda s: norm(s.weight[k]) ** 2))
    of_biases = per_layer(lambda k: mean(lambda s: norm(s.bias[k]) ** 2) if has_bias else 0.0)
    sharpness = sum(of_weights) + sum(of_biases)
    mls = per_layer(lambda k: mean(lambda s: norm(s.jacobian[k], 2)))
    reciprocal = per_layer(lambda k: np.sqrt(mean(lambda s: norm(s.x[k]) ** -2)))
    bounds = spectral * reciprocal * np.sqrt(of_weights)

    def summed(extra):
        return np.sqrt(
            mean(lambda s: sum(spectral[k] ** 2 / (norm(s.x[k]) ** 2 + extra) for k in layers))
        )

    sigma = [np.linalg.svd(sample.jacobian[0], compute_uv=False) for sample in samples]
    full = [np.linalg.matrix_rank(s.jacobian[0]) == len(s.jacobian[0]) for s in samples]
    gram = [s.jacobian[0] @ s.jacobian[0].T for s in samples if np.any(s.jacobian[0])]
    return {
        "sharpness": sharpness,
        "root_sharpness": np.sqrt(sharpness),
        "sharpness_per_layer": of_weights,
        "bias_sharpness_per_layer": of_biases,
        "mls": mls[0],
        "mls_per_layer": mls,
        "nmls": sum(mls),
        "log_volume": np.mean(
            [np.log(s).sum() for s, kept in zip(sigma, full, strict=True) if kept]
        ),
        "local_dimension": np.mean([np.trace(c) ** 2 / np.trace(c @ c) for c in gram]),
        "bound_a": mls[0],
        "bound_b": spectral[0] * mean(lambda s: norm(s.weight[0]) / norm(s.x[0])),
        "bound_c": bounds[0],
        "bound_d": spectral[0] * reciprocal[0] * np.sqrt(sharpness),
        "nmls_bound": summed(0.0) * np.sqrt(sharpness),
        "nmls_bound_layerwise": sum(bounds),
        "nmls_bound_with_bias": summed(float(has_bias)) * np.sqrt(sharpness),
        "layer_bound": bounds,
        "weight_norm": np.array(spectral),
        "reciprocal_input_norm": reciprocal,
        "relative_flatness": factor
        * per_layer(lambda k: mean(lambda s: norm(s.x[k]) ** 2 * norm(s.jacobian[k]) ** 2)),
        "samples_measured": len(samples),
        "samples_rank_deficient": full.count(False),
        "samples_zero_jacobian": len(samples) - len(gram),
        "samples_zero_input": per_layer(lambda k: sum(not np.any(s.x[k]) for s in samples)),
    }


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
def test_every_quantity_of_geometry_equals_its_definition(case, kind, measured):
    model, inputs, _ = case
    expected = geometry_reference(model, inputs, 1 if kind == "half-mse" else 2 / OUTPUTS)
    assert set(expected) == set(geometry.QUANTITIES)
    values = measured(model, inputs, relative_flatness_loss=kind)
    assert set(values) == set(geometry.QUANTITIES)
    for name, value in expected.items():
        assert values[name].shape == np.shape(value), name
        assert values[name] == pytest.approx(value, rel=EXACT, abs=ROUNDING), name


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
    from flatlab.splits import prepare

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
    assert set(expected) == set(accuracy.QUANTITIES)
    values = accuracy.measure(model, splits, {"generalization_gap": gap})
    assert set(values) == set(accuracy.QUANTITIES)
    for name, value in expected.items():
        assert values[name] == pytest.approx(value, rel=EXACT), name
