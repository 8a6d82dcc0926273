"""The mean over all pixels of a channel."""

from torch import Tensor, nn

from flatlab.train.builder import Builder
from flatlab.train.chain import Applied, Layer, function


def global_average_pool(x: Tensor) -> Applied:
    pixels = x.shape[2] * x.shape[3]
    return x.mean((2, 3), keepdim=True), lambda gradient: (gradient / pixels).expand(x.shape)


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    if type(module) is not nn.AdaptiveAvgPool2d or module.output_size not in (1, (1, 1)):
        return None
    return [*builder.fold(), function(global_average_pool)]
