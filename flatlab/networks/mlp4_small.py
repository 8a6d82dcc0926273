"""`mlp4` for images of 8 x 8 pixels: 64-64-64-64-10 on digits. A network of the demo scale."""

from __future__ import annotations

from torch import nn

from flatlab.networks import mlp4

MODE = "batched"
LAYERS = ["flatten", "linear"]
PARAMETERS = 13_130
WIDTHS = (64, 64, 64)


def build(inputs: tuple[int, ...], outputs: int, activation: type[nn.Module]) -> nn.Sequential:
    """As `mlp4`, with hidden layers of 64 units."""
    return mlp4.build(inputs, outputs, activation, WIDTHS)
