"""The hyperbolic tangent."""

from torch import Tensor, nn

from flatlab.train.builder import Builder
from flatlab.train.chain import Applied, Layer, aten, function


def tanh(x: Tensor) -> Applied:
    y = x.tanh()
    return y, lambda gradient: aten.tanh_backward(gradient, y)


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    return [function(tanh)] if type(module) is nn.Tanh else None
