"""The hyperbolic tangent."""

from torch import Tensor, nn

from flatlab.lab.train.stacked_layers import FixedForward, Layer, aten, parameterless
from flatlab.lab.train.stacking import StackBuilder


def tanh(x: Tensor) -> FixedForward:
    y = x.tanh()
    return y, lambda gradient: aten.tanh_backward(gradient, y)


def stacked(module: nn.Module, name: str, builder: StackBuilder) -> list[Layer] | None:
    return [parameterless(tanh)] if type(module) is nn.Tanh else None
