"""Convolutions of images, with zeros beyond the edge."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flatlab.train.builder import Builder
from flatlab.train.chain import Layer, aten


class Convolution:
    """A grouped convolution, the runs as groups.

    weight: (runs * outputs, inputs / groups, height, width).  bias: (runs * outputs), or None.
    """

    def __init__(self, layer: nn.Conv2d, runs: int, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias
        self.parameters = [weight] if bias is None else [weight, bias]
        assert not isinstance(layer.padding, str)
        self.stride, self.padding, self.dilation = layer.stride, layer.padding, layer.dilation
        self.groups = runs * layer.groups

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        geometry = self.stride, self.padding, self.dilation, self.groups
        return torch.conv2d(x, self.weight, self.bias, *geometry), x

    def backward(
        self, saved: Any, gradient: Tensor, wanted: bool
    ) -> tuple[Tensor | None, list[Tensor]]:
        biased = self.bias is not None
        through, of_weight, of_bias = aten.convolution_backward(
            gradient,
            saved,
            self.weight,
            [len(self.weight)] if biased else None,
            self.stride,
            self.padding,
            self.dilation,
            False,
            [0, 0],
            self.groups,
            [wanted, True, biased],
        )
        return through, [of_weight, of_bias] if biased else [of_weight]


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    if not isinstance(module, nn.Conv2d):
        return None
    if module.padding_mode != "zeros" or isinstance(module.padding, str):
        return None
    weight = builder.required(f"{name}.weight", folded=True)
    bias = builder.tensor(f"{name}.bias", folded=True)
    return [*builder.fold(), Convolution(module, builder.runs, weight, bias)]
