"""The Gaussian activation."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from flatlab.networks import Gaussian
from flatlab.train.builder import Builder
from flatlab.train.chain import Layer, WithoutParameters


class GaussianBump(WithoutParameters):
    """y = exp(-x^2 / (2 s^2)), dy/dx = -y x / s^2."""

    def __init__(self, width: float) -> None:
        self.width = width

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        y = (x.square() / (-2 * self.width**2)).exp_()
        return y, (x, y)

    def through(self, saved: Any, gradient: Tensor) -> Tensor:
        x, y = saved
        return (x * y).mul_(gradient).div_(-(self.width**2))


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    return [GaussianBump(module.width)] if isinstance(module, Gaussian) else None
