"""A linear model without bias, of andriushchenko2023, Figure 1; it starts near zero."""

from collections import OrderedDict
from math import prod

from torch import nn

from flatlab.core.options import Architecture

MODE = "batched"
DEVIATION = 1 / 500
"""Of the initial weights, as in the authors' public notebook; the paper does not say."""


class Options(Architecture, frozen=True):
    def layers(self) -> list[str]:
        return ["flatten", "linear"]

    def parameters(self, inputs: tuple[int, ...], outputs: int) -> int:
        return prod(inputs) * outputs


class NearZero(nn.Linear):
    """A linear layer whose weights start as N(0, 1/500^2)."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=DEVIATION)


def build(inputs: tuple[int, ...], outputs: int, options: Options) -> nn.Sequential:
    """One layer `fc`."""
    layer = NearZero(prod(inputs), outputs, bias=False)
    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), fc=layer))
