"""Maxima over windows of images."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flatlab.train.builder import Builder
from flatlab.train.chain import Layer, WithoutParameters, aten


class MaxPool(WithoutParameters):
    """Maximum over windows that neither overlap nor reach beyond the edge: 2 x 2 by default."""

    def __init__(self, size: int) -> None:
        self.size = size

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        if x.is_cuda:
            return self._by_windows(x)
        y, index = aten.max_pool2d_with_indices(x, [self.size, self.size])
        return y, (x, index)

    def through(self, saved: Any, gradient: Tensor) -> Tensor:
        x, index = saved
        if x.is_cuda:
            return self._through_windows(x, index, gradient)
        size = [self.size, self.size]
        return aten.max_pool2d_with_indices_backward(
            gradient, x, size, size, [0, 0], [1, 1], False, index
        )

    # On a GPU the framework's own backward pass adds up in an order that is not fixed.

    def _by_windows(self, x: Tensor) -> tuple[Tensor, Any]:
        height, width = (length // self.size for length in x.shape[2:])
        inside = x[:, :, : height * self.size, : width * self.size]
        windows = inside.unflatten(3, (width, self.size)).unflatten(2, (height, self.size))
        y, index = windows.transpose(3, 4).flatten(4).max(-1)
        return y, (x, index)

    def _through_windows(self, x: Tensor, index: Tensor, gradient: Tensor) -> Tensor:
        places = torch.arange(self.size**2, device=x.device)
        spread = (index[..., None] == places) * gradient[..., None]
        spread = spread.unflatten(-1, (self.size, self.size)).transpose(3, 4)
        inside = spread.flatten(4, 5).flatten(2, 3)
        missing = [x.shape[-1] - inside.shape[-1], x.shape[-2] - inside.shape[-2]]
        return nn.functional.pad(inside, [0, missing[0], 0, missing[1]])


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    if not isinstance(module, nn.MaxPool2d) or not (size := _size_of_windows(module)):
        return None
    return [*builder.fold(), MaxPool(size)]


def _size_of_windows(module: nn.MaxPool2d) -> int | None:
    """The size of windows that are square, whole and do not overlap."""
    size = module.kernel_size
    whole = (module.padding, module.dilation, module.ceil_mode) == (0, 1, False)
    return size if isinstance(size, int) and module.stride == size and whole else None
