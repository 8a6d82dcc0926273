"""The hyperbolic tangent."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from flatlab.train.builder import Builder
from flatlab.train.chain import Layer, WithoutParameters, aten


class Tanh(WithoutParameters):
    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        y = x.tanh()
        return y, y

    def through(self, saved: Any, gradient: Tensor) -> Tensor:
        return aten.tanh_backward(gradient, saved)


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    return [Tanh()] if type(module) is nn.Tanh else None
