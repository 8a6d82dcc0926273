"""The Gaussian activation."""

import functools

from torch import Tensor, nn

from flatlab.lab.train.stacked_layers import FixedForward, Layer, parameterless
from flatlab.lab.train.stacking import StackBuilder
from flatlab.networks._modules import Gaussian


def gaussian(x: Tensor, width: float) -> FixedForward:
    """y = exp(-x^2 / (2 s^2)), dy/dx = -y x / s^2, with s the width."""
    y = (x.square() / (-2 * width**2)).exp_()
    return y, lambda gradient: (x * y).mul_(gradient).div_(-(width**2))


def stacked(module: nn.Module, name: str, builder: StackBuilder) -> list[Layer] | None:
    if not isinstance(module, Gaussian):
        return None
    return [parameterless(functools.partial(gaussian, width=module.width))]
