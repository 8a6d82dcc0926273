"""`vgg11` with batch norm behind each convolution, as macdonald2023 trains it (without dropout)."""

from __future__ import annotations

from torch import nn

from flatlab.networks import vgg11

MODE = "graphs"
LAYERS = ["convolution", "batch-norm", "max-pool", "flatten", "linear"]
PARAMETERS = 9_756_426


def build(inputs: tuple[int, ...], outputs: int, activation: type[nn.Module]) -> nn.Sequential:
    """As `vgg11`, normalized before each activation of a convolution."""
    return vgg11.build(inputs, outputs, activation, norm=True)
