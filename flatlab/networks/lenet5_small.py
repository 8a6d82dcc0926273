"""`lenet5` for images of 8 x 8 pixels: 3 x 3 kernels with padding. A network of the demo scale."""

from __future__ import annotations

from torch import nn

from flatlab.networks import lenet5

MODE = "batched"
LAYERS = ["convolution", "max-pool", "flatten", "linear"]
PARAMETERS = 19_754


def build(inputs: tuple[int, ...], outputs: int, activation: type[nn.Module]) -> nn.Sequential:
    """As `lenet5`, conv 6 and 16 channels, then 64-120-84-N."""
    return lenet5.build(inputs, outputs, activation, kernel=3, padding=1)
