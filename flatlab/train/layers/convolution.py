"""Convolutions of images, padded with zeros."""

import torch
from torch import Tensor, nn

from flatlab.train.builder import Builder
from flatlab.train.chain import Gradients, Layer, Passed, aten


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    """A grouped convolution, the runs as groups.

    weight: (runs * outputs, inputs / groups, height, width).  bias: (runs * outputs), or None.
    """
    if not isinstance(module, nn.Conv2d):
        return None
    if module.padding_mode != "zeros" or isinstance(module.padding, str):
        return None
    weight, bias = (builder.tensor(f"{name}.{part}", folded=True) for part in ("weight", "bias"))
    geometry = module.stride, module.padding, module.dilation
    groups, biased = builder.runs * module.groups, bias is not None

    def forward(x: Tensor, training: bool) -> Passed:
        def backward(gradient: Tensor, wanted: bool) -> Gradients:
            through, *of_parameters = aten.convolution_backward(
                gradient,
                x,
                weight,
                [len(weight)] if biased else None,
                *geometry,
                False,  # not transposed, which would use the next argument
                [0, 0],
                groups,
                [wanted, True, biased],
            )
            return through, of_parameters[: 1 + biased]

        return torch.conv2d(x, weight, bias, *geometry, groups), backward

    return [*builder.fold(), Layer(forward, weight, bias)]
