"""`vgg11` for images of 8 x 8 pixels: four narrow convolutions. A network of the demo scale."""

from __future__ import annotations

from torch import nn

from flatlab.networks import vgg11

MODE = "batched"
LAYERS = ["convolution", "max-pool", "flatten", "linear"]
PARAMETERS = 7_618
WIDTHS = (8, 8, "pool", 16, 16, "pool")
HIDDEN = (32, 32)


def build(inputs: tuple[int, ...], outputs: int, activation: type[nn.Module]) -> nn.Sequential:
    """As `vgg11`, with 7 weight layers, the linear ones 64-32-32-N."""
    return vgg11.build(inputs, outputs, activation, WIDTHS, HIDDEN)
