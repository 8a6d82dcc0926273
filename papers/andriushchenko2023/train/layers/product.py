"""Linear layers whose weight is the elementwise product of two, as in diagonal networks."""

from torch import Tensor, nn

from flatlab.lab.train.stacked_layers import Forward, Gradients, Layer
from flatlab.lab.train.stacking import StackBuilder
from flatlab.networks.diagonal_linear import Diagonal


def product(x: Tensor, u: Tensor, v: Tensor) -> Forward:
    """y = x (u * v)^T. u, v: (runs, outputs, inputs)."""
    weight = u * v

    def backward(gradient: Tensor, need_input_gradient: bool) -> Gradients:
        of_weight = gradient.transpose(1, 2) @ x
        return gradient @ weight if need_input_gradient else None, [of_weight * v, of_weight * u]

    return x @ weight.transpose(1, 2), backward


def stacked(module: nn.Module, name: str, builder: StackBuilder) -> list[Layer] | None:
    if not isinstance(module, Diagonal) or builder.folded:
        return None
    u, v = builder.tensor(f"{name}.u"), builder.tensor(f"{name}.v")
    return [Layer(lambda x, training: product(x, u, v), u, v)]
