"""`resnet18` with three stages of 8, 16 and 32 channels. A network of the demo scale."""

from __future__ import annotations

from torch import nn

from flatlab.networks import resnet18

MODE = "batched"
LAYERS = ["convolution", "batch-norm", "residual", "global-average-pool", "flatten", "linear"]
PARAMETERS = 44_226


def build(inputs: tuple[int, ...], outputs: int, activation: type[nn.Module]) -> nn.Sequential:
    """As `resnet18`, fit for images of 8 x 8 pixels."""
    return resnet18.build(inputs, outputs, activation, widths=(8, 16, 32))
