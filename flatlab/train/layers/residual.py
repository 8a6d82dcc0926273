"""Residual blocks."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from flatlab.networks import Residual
from flatlab.train.builder import Builder
from flatlab.train.chain import Chain, Layer


class Shortcut:
    """y = body(x) + shortcut(x), where an empty shortcut is the identity."""

    def __init__(self, body: Chain, shortcut: Chain) -> None:
        self.body, self.shortcut = body, shortcut
        self.parameters = [*body.parameters, *shortcut.parameters]

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        of_body, body = self.body.forward(x, training)
        of_shortcut, shortcut = self.shortcut.forward(x, training)
        return of_body + of_shortcut, (body, shortcut)

    def backward(
        self, saved: Any, gradient: Tensor, wanted: bool
    ) -> tuple[Tensor | None, list[Tensor]]:
        through_body, of_body = self.body.backward(saved[0], gradient, wanted)
        through_shortcut, of_shortcut = self.shortcut.backward(saved[1], gradient, wanted)
        through = None
        if wanted:
            assert through_body is not None
            assert through_shortcut is not None
            through = through_body + through_shortcut
        return through, [*of_body, *of_shortcut]


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    if not isinstance(module, Residual):
        return None
    fold = builder.fold()
    body = builder.chain(module.body, f"{name}.body.")
    builder.folded = True
    return [*fold, Shortcut(body, builder.chain(module.shortcut, f"{name}.shortcut."))]
