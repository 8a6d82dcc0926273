"""ReLU."""

from torch import Tensor, nn

from flatlab.train.builder import Builder
from flatlab.train.chain import Applied, Layer, aten, function


def relu(x: Tensor) -> Applied:
    y = x.relu()
    return y, lambda gradient: aten.threshold_backward(gradient, y, 0)


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    return [function(relu)] if type(module) is nn.ReLU else None
