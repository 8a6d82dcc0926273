"""The Gaussian activation."""

import functools

from torch import Tensor, nn

from flatlab.networks import Gaussian
from flatlab.train.builder import Builder
from flatlab.train.chain import Applied, Layer, function


def gaussian(x: Tensor, width: float) -> Applied:
    """y = exp(-x^2 / (2 s^2)), dy/dx = -y x / s^2, with s the width."""
    y = (x.square() / (-2 * width**2)).exp_()
    return y, lambda gradient: (x * y).mul_(gradient).div_(-(width**2))


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    if not isinstance(module, Gaussian):
        return None
    return [function(functools.partial(gaussian, width=module.width))]
