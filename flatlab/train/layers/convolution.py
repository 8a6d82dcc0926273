"""Convolutions of images, padded with zeros."""

import torch
from torch import Tensor, nn

from flatlab.train.builder import Builder
from flatlab.train.chain import Backward, Gradients, Layer, aten


class Convolution:
    """A grouped convolution, the runs as groups.

    weight: (runs * outputs, inputs / groups, height, width).  bias: (runs * outputs), or None.
    """

    def __init__(self, layer: nn.Conv2d, runs: int, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias
        self.parameters = [weight] if bias is None else [weight, bias]
        assert not isinstance(layer.padding, str)
        self.geometry = layer.stride, layer.padding, layer.dilation
        self.groups = runs * layer.groups

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Backward]:
        y = torch.conv2d(x, self.weight, self.bias, *self.geometry, self.groups)
        biased = self.bias is not None

        def backward(gradient: Tensor, wanted: bool) -> Gradients:
            through, *of_parameters = aten.convolution_backward(
                gradient,
                x,
                self.weight,
                [len(self.weight)] if biased else None,
                *self.geometry,
                False,  # not transposed, which would use the next argument
                [0, 0],
                self.groups,
                [wanted, True, biased],
            )
            return through, of_parameters[: len(self.parameters)]

        return y, backward


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    if not isinstance(module, nn.Conv2d):
        return None
    if module.padding_mode != "zeros" or isinstance(module.padding, str):
        return None
    weight = builder.required(f"{name}.weight", folded=True)
    bias = builder.tensor(f"{name}.bias", folded=True)
    return [*builder.fold(), Convolution(module, builder.runs, weight, bias)]
