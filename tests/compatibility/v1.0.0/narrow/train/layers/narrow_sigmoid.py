"""The logistic function."""

from torch import Tensor, nn

from flatlab.lab.train.stacked_layers import FixedForward, Layer, aten, parameterless
from flatlab.lab.train.stacking import StackBuilder


def sigmoid(x: Tensor) -> FixedForward:
    y = x.sigmoid()
    return y, lambda gradient: aten.sigmoid_backward(gradient, y)


def stacked(module: nn.Module, name: str, builder: StackBuilder) -> list[Layer] | None:
    return [parameterless(sigmoid)] if type(module) is nn.Sigmoid else None
