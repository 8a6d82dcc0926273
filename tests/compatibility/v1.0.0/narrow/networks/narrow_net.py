"""A perceptron with one narrow layer of sigmoids."""

from collections import OrderedDict
from math import prod
from typing import Annotated

from torch import nn

from flatlab.core.options import Architecture
from flatlab.core.schema import means

MODE = "batched"


class Options(Architecture, frozen=True):
    units: Annotated[int, means("in the hidden layer", ge=1)] = 3

    def layers(self) -> list[str]:
        return ["flatten", "linear", "narrow-sigmoid"]

    def parameters(self, inputs: tuple[int, ...], outputs: int) -> int:
        return (prod(inputs) + 1) * self.units + (self.units + 1) * outputs


def build(inputs: tuple[int, ...], outputs: int, options: Options) -> nn.Sequential:
    return nn.Sequential(
        OrderedDict(
            flatten=nn.Flatten(),
            fc1=nn.Linear(prod(inputs), options.units),
            act1=nn.Sigmoid(),
            fc2=nn.Linear(options.units, outputs),
        )
    )
