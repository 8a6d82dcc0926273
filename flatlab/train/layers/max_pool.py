"""Maxima over windows of images."""

import functools

import torch
from torch import Tensor, nn

from flatlab.train.builder import Builder
from flatlab.train.chain import Applied, Layer, aten, function


def max_pool(x: Tensor, size: int) -> Applied:
    """Maximum over square windows that neither overlap nor are padded."""
    if x.is_cuda:
        return max_pool_by_windows(x, size)
    window = [size, size]
    y, index = aten.max_pool2d_with_indices(x, window)

    def through(gradient: Tensor) -> Tensor:
        return aten.max_pool2d_with_indices_backward(
            gradient, x, window, window, [0, 0], [1, 1], False, index
        )

    return y, through


def max_pool_by_windows(x: Tensor, size: int) -> Applied:
    """The same where the framework's own backward pass sums in no fixed order, on a GPU."""
    height, width = (length // size for length in x.shape[2:])
    inside = x[:, :, : height * size, : width * size]
    windows = inside.unflatten(3, (width, size)).unflatten(2, (height, size))
    y, index = windows.transpose(3, 4).flatten(4).max(-1)

    def through(gradient: Tensor) -> Tensor:
        places = torch.arange(size**2, device=x.device)
        spread = (index[..., None] == places) * gradient[..., None]
        spread = spread.unflatten(-1, (size, size)).transpose(3, 4)
        inside = spread.flatten(4, 5).flatten(2, 3)
        missing = [x.shape[-1] - inside.shape[-1], x.shape[-2] - inside.shape[-2]]
        return nn.functional.pad(inside, [0, missing[0], 0, missing[1]])

    return y, through


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    if not isinstance(module, nn.MaxPool2d):
        return None
    size = module.kernel_size
    plain = (module.padding, module.dilation, module.ceil_mode) == (0, 1, False)
    if not isinstance(size, int) or module.stride != size or not plain:
        return None
    return [*builder.fold(), function(functools.partial(max_pool, size=size))]
