"""Linear layers."""

import torch
from torch import Tensor, nn

from flatlab.train.stacked_layers import Forward, Gradients, Layer
from flatlab.train.stacking import StackBuilder


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Forward:
    """y = x W^T + b. weight: (runs, outputs, inputs).  bias: (runs, outputs), or None."""
    transposed = weight.transpose(1, 2)
    y = x @ transposed if bias is None else torch.baddbmm(bias[:, None], x, transposed)

    def backward(gradient: Tensor, need_input_gradient: bool) -> Gradients:
        of_parameters = [gradient.transpose(1, 2) @ x]
        if bias is not None:
            of_parameters.append(gradient.sum(1))
        return gradient @ weight if need_input_gradient else None, of_parameters

    return y, backward


def stacked(module: nn.Module, name: str, builder: StackBuilder) -> list[Layer] | None:
    if not isinstance(module, nn.Linear) or builder.folded:
        return None
    weight, bias = builder.tensor(f"{name}.weight"), builder.tensor(f"{name}.bias")
    return [Layer(lambda x, training: linear(x, weight, bias), weight, bias)]
