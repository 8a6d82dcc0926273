"""Linear layers whose weight is a product of two, elementwise, as of diagonal networks."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from flatlab.networks.diagonal_linear import Diagonal
from flatlab.train.builder import Builder
from flatlab.train.chain import Layer


class Product:
    """y = x (u * v)^T. u, v: (runs, outputs, inputs)."""

    def __init__(self, u: Tensor, v: Tensor) -> None:
        self.u, self.v = u, v
        self.parameters = [u, v]

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        weight = self.u * self.v
        return x @ weight.transpose(1, 2), (x, weight)

    def backward(
        self, saved: Any, gradient: Tensor, wanted: bool
    ) -> tuple[Tensor | None, list[Tensor]]:
        x, weight = saved
        of_weight = gradient.transpose(1, 2) @ x
        return gradient @ weight if wanted else None, [of_weight * self.v, of_weight * self.u]


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    if not isinstance(module, Diagonal) or builder.folded:
        return None
    return [Product(builder.required(f"{name}.u"), builder.required(f"{name}.v"))]
