"""The mean over all pixels of a channel."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from flatlab.train.builder import Builder
from flatlab.train.chain import Layer, WithoutParameters


class GlobalAveragePool(WithoutParameters):
    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        return x.mean((2, 3), keepdim=True), x.shape

    def through(self, saved: Any, gradient: Tensor) -> Tensor:
        return (gradient / (saved[2] * saved[3])).expand(saved)


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    if type(module) is not nn.AdaptiveAvgPool2d or module.output_size not in (1, (1, 1)):
        return None
    return [*builder.fold(), GlobalAveragePool()]
