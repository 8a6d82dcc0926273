"""What the chen papers' public code calls VGG-11: five narrow convolutions with padding 2."""

from __future__ import annotations

from torch import nn

from flatlab.networks import vgg11

MODE = "graphs"
LAYERS = ["convolution", "max-pool", "flatten", "linear"]
PARAMETERS = 97_018
WIDTHS = (16, "pool", 16, "pool", 32, "pool", 64, "pool", 64, "pool")
HIDDEN = (128,)


def build(inputs: tuple[int, ...], outputs: int, activation: type[nn.Module]) -> nn.Sequential:
    """As `vgg11`, with 7 weight layers, the linear ones 256-128-N for images of 32 x 32 pixels."""
    return vgg11.build(inputs, outputs, activation, WIDTHS, HIDDEN, padding=2)
