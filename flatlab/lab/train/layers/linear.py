"""Linear layers."""

from typing import Any

import torch
from torch import Tensor, nn

from flatlab.lab.train.stacked_layers import Forward, Gradients, Layer, Product
from flatlab.lab.train.stacking import StackBuilder

LARGE = 2**16
"""Numbers of a weight from which on its gradient is worth a kernel for each run."""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, product: bool = False) -> Forward:
    """y = x W^T + b.

    x: (runs, batch, inputs).
    weight: (runs, outputs, inputs).
    bias: (runs, outputs), or None.
    product: leave the gradient of the weight as a product.
    """
    transposed = weight.transpose(1, 2)
    y = x @ transposed if bias is None else torch.baddbmm(bias[:, None], x, transposed)

    def backward(gradient: Tensor, need_input_gradient: bool) -> Gradients:
        of_weight = Product(gradient.transpose(1, 2), x)
        of_parameters: list[Any] = [of_weight if product else of_weight.left @ of_weight.right]
        if bias is not None:
            of_parameters.append(gradient.sum(1))
        return gradient @ weight if need_input_gradient else None, of_parameters

    return y, backward


def stacked(module: nn.Module, name: str, builder: StackBuilder) -> list[Layer] | None:
    if not isinstance(module, nn.Linear) or builder.folded:
        return None
    weight, bias = builder.tensor(f"{name}.weight"), builder.tensor(f"{name}.bias")
    product = builder.products and weight[0].numel() >= LARGE
    return [Layer(lambda x, training: linear(x, weight, bias, product), weight, bias)]
