"""Vectors of what was images, or of several axes."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from flatlab.train.builder import Builder
from flatlab.train.chain import Layer, Unfold, WithoutParameters


class Flatten(WithoutParameters):
    """(runs, batch, ...) -> (runs, batch, features)."""

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        return x.flatten(2), x.shape

    def through(self, saved: Any, gradient: Tensor) -> Tensor:
        return gradient.reshape(saved)


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    if type(module) is not nn.Flatten or (module.start_dim, module.end_dim) != (1, -1):
        return None
    folded, builder.folded = builder.folded, False
    return [Unfold(builder.runs) if folded else Flatten()]
