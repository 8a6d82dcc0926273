"""Residual blocks."""

from torch import Tensor, nn

from flatlab.networks import Residual
from flatlab.train.builder import Builder
from flatlab.train.chain import Backward, Chain, Gradients, Layer


class Shortcut:
    """y = body(x) + shortcut(x); an empty shortcut is the identity."""

    def __init__(self, body: Chain, shortcut: Chain) -> None:
        self.body, self.shortcut = body, shortcut
        self.parameters = [*body.parameters, *shortcut.parameters]

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Backward]:
        of_body, through_body = self.body.forward(x, training)
        of_shortcut, through_shortcut = self.shortcut.forward(x, training)

        def backward(gradient: Tensor, wanted: bool) -> Gradients:
            first, of_parameters = through_body(gradient, wanted)
            second, more = through_shortcut(gradient, wanted)
            both = None if first is None or second is None else first + second
            return both, [*of_parameters, *more]

        return of_body + of_shortcut, backward


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    if not isinstance(module, Residual):
        return None
    fold = builder.fold()
    body = builder.chain(module.body, f"{name}.body.")
    builder.folded = True
    return [*fold, Shortcut(body, builder.chain(module.shortcut, f"{name}.shortcut."))]
