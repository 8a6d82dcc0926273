"""`mlp3` for images of 8 x 8 pixels: 64-32-32-10 on digits. A network of the demo scale."""

from __future__ import annotations

from torch import nn

from flatlab.networks import mlp4

MODE = "batched"
LAYERS = ["flatten", "linear"]
PARAMETERS = 3_466
WIDTHS = (32, 32)


def build(inputs: tuple[int, ...], outputs: int, activation: type[nn.Module]) -> nn.Sequential:
    """As `mlp3`, with hidden layers of 32 units."""
    return mlp4.build(inputs, outputs, activation, WIDTHS)
