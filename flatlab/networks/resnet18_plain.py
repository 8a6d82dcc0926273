"""`resnet18` without batch norm: biases, and blocks that start as their shortcuts."""

from __future__ import annotations

from torch import nn

from flatlab.networks import resnet18

MODE = "graphs"
LAYERS = ["convolution", "residual", "global-average-pool", "flatten", "linear"]
PARAMETERS = 11_169_162


def build(inputs: tuple[int, ...], outputs: int, activation: type[nn.Module]) -> nn.Sequential:
    """As `resnet18`, without normalization."""
    return resnet18.build(inputs, outputs, activation, norm=False)
