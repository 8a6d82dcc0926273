"""Linear layers."""

import torch
from torch import Tensor, nn

from flatlab.train.builder import Builder
from flatlab.train.chain import Backward, Gradients, Layer


class Linear:
    """y = x W^T + b. weight: (runs, outputs, inputs).  bias: (runs, outputs), or None."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias
        self.parameters = [weight] if bias is None else [weight, bias]

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Backward]:
        weight, bias = self.weight.transpose(1, 2), self.bias
        y = x @ weight if bias is None else torch.baddbmm(bias[:, None], x, weight)

        def backward(gradient: Tensor, wanted: bool) -> Gradients:
            of_parameters = [gradient.transpose(1, 2) @ x]
            if bias is not None:
                of_parameters.append(gradient.sum(1))
            return gradient @ self.weight if wanted else None, of_parameters

        return y, backward


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    if not isinstance(module, nn.Linear) or builder.folded:
        return None
    weight = builder.required(f"{name}.weight")
    return [Linear(weight, builder.tensor(f"{name}.bias"))]
