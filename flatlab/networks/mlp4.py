"""The four-layer perceptron of the chen papers: inputs-500-500-500-outputs, biases everywhere.

Widths and depth are those of the authors' public code; the papers say "4-layer MLP".
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise
from math import prod

from torch import nn

MODE = "batched"
LAYERS = ["flatten", "linear"]
PARAMETERS = 898_510
OPTIONS = {
    "widths": "of the hidden layers",
}
WIDTHS = (500, 500, 500)


def build(
    inputs: tuple[int, ...],
    outputs: int,
    activation: type[nn.Module],
    widths: tuple[int, ...] | None = None,
) -> nn.Sequential:
    """Linear layers fc1, fc2, ... with an activation between any two; widths: None: `WIDTHS`."""
    widths = WIDTHS if widths is None else widths
    layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    sizes = [prod(inputs), *widths, outputs]
    for number, (fan_in, fan_out) in enumerate(pairwise(sizes), start=1):
        layers[f"fc{number}"] = nn.Linear(fan_in, fan_out)
        if number <= len(widths):
            layers[f"act{number}"] = activation()
    return nn.Sequential(layers)
