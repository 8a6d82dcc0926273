"""ReLU."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from flatlab.train.builder import Builder
from flatlab.train.chain import Layer, WithoutParameters, aten


class ReLU(WithoutParameters):
    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        y = x.relu()
        return y, y

    def through(self, saved: Any, gradient: Tensor) -> Tensor:
        return aten.threshold_backward(gradient, saved, 0)


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    return [ReLU()] if type(module) is nn.ReLU else None
