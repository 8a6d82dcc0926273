"""The three-layer perceptron of macdonald2023, App. C.2: inputs-200-200-outputs, with biases."""

from __future__ import annotations

from torch import nn

from flatlab.networks import mlp4

MODE = "batched"
LAYERS = ["flatten", "linear"]
PARAMETERS = 656_810
WIDTHS = (200, 200)


def build(inputs: tuple[int, ...], outputs: int, activation: type[nn.Module]) -> nn.Sequential:
    """As `mlp4`, with two hidden layers."""
    return mlp4.build(inputs, outputs, activation, WIDTHS)
