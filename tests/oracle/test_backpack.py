"""Sharpness against the diagonal of the Gauss-Newton matrix that BackPACK computes."""

import pytest
import torch
from torch import nn

SAMPLES = 12
EXACT = 1e-10

backpack = pytest.importorskip("backpack")

pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning"),
    pytest.mark.parametrize("residual", [0.0, 3.0]),
]


def diagonals(model, x, residual):
    """Of the generalized Gauss-Newton matrix of mean |f - y|^2 / 2, a tensor per parameter.

    BackPACK's is that of the sum of squares, which is twice the sum over the samples.
    """
    from backpack.extensions import DiagGGNExact

    targets = model(x).detach() + residual
    model, loss = backpack.extend(model), backpack.extend(nn.MSELoss(reduction="sum"))
    with backpack.backpack(DiagGGNExact()):
        loss(model(x), targets).backward()
    return {
        name: parameter.diag_ggn_exact.detach() / 2 / len(x)
        for name, parameter in model.named_parameters()
    }


def check(model, x, residual, measure):
    """Of the network, of each layer, and weighted by the parameters' squares."""
    values = measure(model, x)
    diagonal = diagonals(model, x, residual)
    total = sum(float(each.sum()) for each in diagonal.values())
    assert values.sharpness.item() == pytest.approx(total, rel=EXACT)
    for layer in values.layer.values:
        own = values.sel(layer=layer)
        of_weights = float(diagonal[f"{layer}.weight"].sum())
        of_biases = float(diagonal.get(f"{layer}.bias", torch.zeros(1)).sum())
        assert own.sharpness_per_layer.item() == pytest.approx(of_weights, rel=EXACT), layer
        assert own.bias_sharpness_per_layer.item() == pytest.approx(of_biases, rel=EXACT), layer
    weighted = sum(
        float((diagonal[name] * parameter.detach().square()).sum())
        for name, parameter in model.named_parameters()
    )
    assert values.elementwise_adaptive_trace.item() == pytest.approx(weighted, rel=EXACT)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_sharpness_of_linear_layers_is_the_trace_of_the_gauss_newton_matrix(
    activation, bias, residual, mlp, normal, measure
):
    model = mlp((6, 9, 8, 4), seed=2, activation=activation, bias=bias)
    check(model, normal(SAMPLES, 6), residual, measure)


def test_sharpness_of_convolutions_is_the_trace_of_the_gauss_newton_matrix(
    residual, lenet, normal, measure
):
    check(lenet(), normal(SAMPLES, 1, 10, 10), residual, measure)


@pytest.mark.parametrize(
    "convolution",
    [
        pytest.param({"stride": (2, 1), "padding": (0, 2)}, id="stride"),
        pytest.param({"dilation": 2, "bias": False}, id="dilation"),
        pytest.param({"groups": 2, "padding": 1}, id="groups"),
    ],
)
def test_sharpness_of_one_convolution_is_the_trace_of_the_gauss_newton_matrix(
    convolution, residual, randomized, normal, measure
):
    first = nn.Conv2d(2, 4, 3, **convolution)
    numbers = first(torch.zeros(1, 2, 7, 7)).numel()
    model = nn.Sequential(first, nn.Tanh(), nn.Flatten(), nn.Linear(numbers, 3))
    check(randomized(model), normal(SAMPLES, 2, 7, 7), residual, measure)
