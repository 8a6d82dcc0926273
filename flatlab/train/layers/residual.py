"""Residual blocks."""

from torch import Tensor, nn

from flatlab.networks import Residual
from flatlab.train.builder import Builder
from flatlab.train.chain import Gradients, Layer, Passed


def residual(x: Tensor, training: bool, body: Layer, shortcut: Layer) -> Passed:
    """y = body(x) + shortcut(x); an empty shortcut is the identity."""
    of_body, through_body = body.forward(x, training)
    of_shortcut, through_shortcut = shortcut.forward(x, training)

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
    shortcut = builder.chain(module.shortcut, f"{name}.shortcut.")
    parameters = *body.parameters, *shortcut.parameters
    return [*fold, Layer(lambda x, training: residual(x, training, body, shortcut), *parameters)]
