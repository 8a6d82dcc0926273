"""Maxima over windows of images."""

import functools

from torch import Tensor, nn

from flatlab.lab.train.stacked_layers import FixedForward, Layer, aten, parameterless
from flatlab.lab.train.stacking import StackBuilder


def max_pool(x: Tensor, size: int) -> FixedForward:
    """Maximum over square windows that neither overlap nor are padded."""
    window = [size, size]
    y, index = aten.max_pool2d_with_indices(x, window)

    def input_gradient(gradient: Tensor) -> Tensor:
        return aten.max_pool2d_with_indices_backward(
            gradient, x, window, window, [0, 0], [1, 1], False, index
        )

    return y, input_gradient


def stacked(module: nn.Module, name: str, builder: StackBuilder) -> list[Layer] | None:
    if not isinstance(module, nn.MaxPool2d):
        return None
    size = module.kernel_size
    plain = (module.padding, module.dilation, module.ceil_mode) == (0, 1, False)
    if not isinstance(size, int) or module.stride != size or not plain:
        return None
    return [*builder.fold(), parameterless(functools.partial(max_pool, size=size))]
