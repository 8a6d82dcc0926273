"""The mean over all pixels of a channel."""

from torch import Tensor, nn

from flatlab.lab.train.stacked_layers import FixedForward, Layer, parameterless
from flatlab.lab.train.stacking import StackBuilder


def global_average_pool(x: Tensor) -> FixedForward:
    pixels = x.shape[2] * x.shape[3]
    return x.mean((2, 3), keepdim=True), lambda gradient: (gradient / pixels).expand(x.shape)


def stacked(module: nn.Module, name: str, builder: StackBuilder) -> list[Layer] | None:
    if type(module) is not nn.AdaptiveAvgPool2d or module.output_size not in (1, (1, 1)):
        return None
    return [*builder.fold(), parameterless(global_average_pool)]
