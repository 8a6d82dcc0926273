"""The architecture of this study: a perceptron with one hidden layer."""

from collections import OrderedDict
from math import prod
from typing import Annotated

from torch import nn

from flatlab.core.options import Activation, Architecture
from flatlab.core.schema import means
from flatlab.networks._modules import ACTIVATIONS

MODE = "batched"  # small networks are trained side by side


class Options(Architecture, frozen=True):
    activation: Activation
    units: Annotated[int, means("in the hidden layer", ge=1)] = 12

    def layers(self) -> list[str]:
        return ["flatten", "linear", self.activation]

    def parameters(self, inputs: tuple[int, ...], outputs: int) -> int:
        return (prod(inputs) + 1) * self.units + (self.units + 1) * outputs


def build(inputs: tuple[int, ...], outputs: int, options: Options) -> nn.Sequential:
    """A torch module from (batch, *inputs) to (batch, outputs)."""
    return nn.Sequential(
        OrderedDict(
            flatten=nn.Flatten(),
            fc1=nn.Linear(prod(inputs), options.units),
            act1=ACTIVATIONS[options.activation](),
            fc2=nn.Linear(options.units, outputs),
        )
    )
