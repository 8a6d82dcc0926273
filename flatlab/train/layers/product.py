"""Linear layers whose weight is the elementwise product of two, as in diagonal networks."""

from torch import Tensor, nn

from flatlab.networks.diagonal_linear import Diagonal
from flatlab.train.builder import Builder
from flatlab.train.chain import Backward, Gradients, Layer


class Product:
    """y = x (u * v)^T. u, v: (runs, outputs, inputs)."""

    def __init__(self, u: Tensor, v: Tensor) -> None:
        self.parameters = [u, v]

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Backward]:
        u, v = self.parameters
        weight = u * v

        def backward(gradient: Tensor, wanted: bool) -> Gradients:
            of_weight = gradient.transpose(1, 2) @ x
            return gradient @ weight if wanted else None, [of_weight * v, of_weight * u]

        return x @ weight.transpose(1, 2), backward


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    if not isinstance(module, Diagonal) or builder.folded:
        return None
    return [Product(builder.required(f"{name}.u"), builder.required(f"{name}.v"))]
