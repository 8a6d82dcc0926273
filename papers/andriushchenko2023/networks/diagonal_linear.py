"""The diagonal linear network of andriushchenko2023, Sec. 5.2: f(x) = <x, u * v>, elementwise."""

from collections import OrderedDict
from math import log, prod

import torch
from torch import Tensor, nn

from flatlab.core.options import Architecture

MODE = "batched"
SCALES = (0.01, 1.0)
"""Between which the deviation of the initial u and v is drawn, log-uniformly: an assumption."""


class Options(Architecture, frozen=True):
    def layers(self) -> list[str]:
        return ["flatten", "product"]

    def parameters(self, inputs: tuple[int, ...], outputs: int) -> int:
        return 2 * prod(inputs) * outputs


class Diagonal(nn.Module):
    """y = x (u * v)^T.  u, v: (outputs, inputs), both N(0, a^2) at the start; a is drawn first."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.u, self.v = (nn.Parameter(torch.empty(outputs, inputs)) for _ in "uv")
        self.reset_parameters()

    def reset_parameters(self) -> None:
        deviation = float(torch.empty(()).uniform_(*map(log, SCALES)).exp())
        for parameter in (self.u, self.v):
            nn.init.normal_(parameter, std=deviation)

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.u * self.v).T


def build(inputs: tuple[int, ...], outputs: int, options: Options) -> nn.Sequential:
    """One layer `diagonal`."""
    layer = Diagonal(prod(inputs), outputs)
    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), diagonal=layer))
