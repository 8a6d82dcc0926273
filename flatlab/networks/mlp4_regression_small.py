"""`mlp4-regression` of the demo scale: 1-64-64-64-1."""

from __future__ import annotations

from torch import nn

from flatlab.networks import mlp4

MODE = "batched"
LAYERS = ["flatten", "linear"]
PARAMETERS = 8_513
WIDTHS = (64, 64, 64)


def build(inputs: tuple[int, ...], outputs: int, activation: type[nn.Module]) -> nn.Sequential:
    """As `mlp4`, with hidden layers of 64 units."""
    return mlp4.build(inputs, outputs, activation, WIDTHS)
