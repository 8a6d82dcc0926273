"""ReLU."""

from torch import Tensor, nn

from flatlab.lab.train.stacked_layers import FixedForward, Layer, aten, parameterless
from flatlab.lab.train.stacking import StackBuilder


def relu(x: Tensor) -> FixedForward:
    y = x.relu()
    return y, lambda gradient: aten.threshold_backward(gradient, y, 0)


def stacked(module: nn.Module, name: str, builder: StackBuilder) -> list[Layer] | None:
    return [parameterless(relu)] if type(module) is nn.ReLU else None
