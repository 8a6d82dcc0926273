"""Perceptrons: linear layers with biases, and an activation between any two of them.

By default the four-layer perceptron of the chen papers, inputs-500-500-500-outputs: its width and
depth are those of the authors' public code; the papers say "4-layer MLP".
"""

from collections import OrderedDict
from itertools import pairwise
from math import prod
from typing import Annotated

from msgspec import Meta
from torch import nn

from flatlab.core.options import Activation, Architecture, of_linear_layers
from flatlab.core.schema import means
from flatlab.networks._modules import ACTIVATIONS

MODE = "batched"


class Options(Architecture, frozen=True):
    activation: Activation
    width: Annotated[
        Annotated[int, Meta(ge=1)] | tuple[Annotated[int, Meta(ge=1)], ...],
        means("units of each hidden layer, or a list with those of every one"),
    ] = 500
    depth: Annotated[int, means("weight layers", ge=1)] = 4

    def contradiction(self) -> tuple[str, str] | None:
        if isinstance(self.width, tuple) and len(self.width) != self.depth - 1:
            return "width", f"depth {self.depth} needs {self.depth - 1} widths, or a single one"
        return None

    def layers(self) -> list[str]:
        return ["flatten", "linear", *([self.activation] if self.depth > 1 else [])]

    def sizes(self, inputs: tuple[int, ...], outputs: int) -> list[int]:
        """Numbers of units from the inputs to the outputs."""
        hidden = self.width if isinstance(self.width, tuple) else (self.width,) * (self.depth - 1)
        return [prod(inputs), *hidden, outputs]

    def parameters(self, inputs: tuple[int, ...], outputs: int) -> int:
        return of_linear_layers(self.sizes(inputs, outputs))


def build(inputs: tuple[int, ...], outputs: int, options: Options) -> nn.Sequential:
    """Layers flatten, fc1, act1, fc2, act2, ..."""
    layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    for number, size in enumerate(pairwise(options.sizes(inputs, outputs)), start=1):
        layers[f"fc{number}"] = nn.Linear(*size)
        if number < options.depth:
            layers[f"act{number}"] = ACTIVATIONS[options.activation]()
    return nn.Sequential(layers)
