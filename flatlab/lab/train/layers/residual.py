"""Residual blocks."""

from torch import Tensor, nn

from flatlab.lab.train.stacked_layers import Forward, Gradients, Layer
from flatlab.lab.train.stacking import StackBuilder
from flatlab.networks._modules import Residual


def residual(x: Tensor, training: bool, body: Layer, shortcut: Layer) -> Forward:
    """y = body(x) + shortcut(x); an empty shortcut is the identity."""
    body_output, body_backward = body.forward(x, training)
    shortcut_output, shortcut_backward = shortcut.forward(x, training)

    def backward(gradient: Tensor, need_input_gradient: bool) -> Gradients:
        of_input, of_body = body_backward(gradient, need_input_gradient)
        by_shortcut, of_shortcut = shortcut_backward(gradient, need_input_gradient)
        if of_input is not None and by_shortcut is not None:
            of_input = of_input + by_shortcut
        return of_input, [*of_body, *of_shortcut]

    return body_output + shortcut_output, backward


def stacked(module: nn.Module, name: str, builder: StackBuilder) -> list[Layer] | None:
    if not isinstance(module, Residual):
        return None
    fold = builder.fold()
    body = builder.sequential(module.body, f"{name}.body.")
    builder.folded = True
    shortcut = builder.sequential(module.shortcut, f"{name}.shortcut.")
    parameters = *body.parameters, *shortcut.parameters
    return [*fold, Layer(lambda x, training: residual(x, training, body, shortcut), *parameters)]
