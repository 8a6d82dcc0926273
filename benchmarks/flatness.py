"""Relative flatness of the last layer for cross-entropy, against the Hessian by double backward."""

from __future__ import annotations

import torch
from torch import nn

import flatlab
from benchmarks.timing import paired, report
from flatlab.networks import lenet5, mlp


def explicit(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor, name: str) -> float:
    """One backward pass for each number of the gradient, and all blocks of the Hessian kept.

    This is how public code computes relative flatness.
    """
    weight = model.get_parameter(f"{name}.weight")
    loss = nn.functional.cross_entropy(model(inputs), labels)
    (gradient,) = torch.autograd.grad(loss, weight, create_graph=True)
    rows = [torch.autograd.grad(g, weight, retain_graph=True)[0] for g in gradient.flatten()]
    blocks = torch.stack(rows).view(*weight.shape, *weight.shape)
    traces = torch.einsum("sata->st", blocks)
    return (traces * (weight @ weight.T)).sum().item()


def flatness() -> None:
    """All of `flatlab.measure`, its checks included; float32, 100 samples."""
    torch.manual_seed(0)
    perceptron = mlp.build((784,), 10, mlp.Options(activation="relu", width=256))
    lenet = lenet5.build((3, 32, 32), 10, lenet5.Options(activation="relu"))
    labels = torch.arange(100) % 10
    for what, model, inputs, name in (
        ("MLP", perceptron, torch.rand(100, 784), "fc4"),
        ("LeNet5", lenet, torch.rand(100, 3, 32, 32), "fc3"),
    ):
        model.eval()

        def ours(model: nn.Module = model, x: torch.Tensor = inputs, name: str = name) -> float:
            options = {"flatness": ["exact"], "flatness_layers": [name], "loss": "cross-entropy"}
            found = flatlab.measure(model, x, labels, families=["flatness"], **options)
            return found.kappa_trace.sel(layer=name).item()

        def theirs(model: nn.Module = model, x: torch.Tensor = inputs, name: str = name) -> float:
            return explicit(model, x, labels, name)

        assert abs(ours() / theirs() - 1) < 1e-4, what
        report(f"{what}, kappa of the last layer", *paired(ours, theirs), "double backward")
