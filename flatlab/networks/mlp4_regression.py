"""The four-layer perceptron of macdonald2023, App. C.3: 1-256-256-256-1, from the line to the line.

The paper says "four layer MLP". The width is inferred: the first layer of the framework's
initialization then has the norm sqrt(256/3) = 9.24, and tables 1 and 2 print 9.1 to 9.6.
"""

from __future__ import annotations

from torch import nn

from flatlab.networks import mlp4

MODE = "batched"
LAYERS = ["flatten", "linear"]
PARAMETERS = 132_353
WIDTHS = (256, 256, 256)


def build(inputs: tuple[int, ...], outputs: int, activation: type[nn.Module]) -> nn.Sequential:
    """As `mlp4`, with hidden layers of 256 units."""
    return mlp4.build(inputs, outputs, activation, WIDTHS)
