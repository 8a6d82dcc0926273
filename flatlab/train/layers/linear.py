"""Linear layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flatlab.train.builder import Builder
from flatlab.train.chain import Layer


class Linear:
    """y = x W^T + b. weight: (runs, outputs, inputs).  bias: (runs, outputs), or None."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias
        self.parameters = [weight] if bias is None else [weight, bias]

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        weight = self.weight.transpose(1, 2)
        y = x @ weight if self.bias is None else torch.baddbmm(self.bias[:, None], x, weight)
        return y, x

    def backward(
        self, saved: Any, gradient: Tensor, wanted: bool
    ) -> tuple[Tensor | None, list[Tensor]]:
        gradients = [gradient.transpose(1, 2) @ saved]
        if self.bias is not None:
            gradients.append(gradient.sum(1))
        return gradient @ self.weight if wanted else None, gradients


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    if not isinstance(module, nn.Linear) or builder.folded:
        return None
    weight = builder.required(f"{name}.weight")
    return [Linear(weight, builder.tensor(f"{name}.bias"))]
