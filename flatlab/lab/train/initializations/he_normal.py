"""Weights from N(0, 2/fan-out); biases 0."""

import functools

from torch import nn

from flatlab.lab.train.initializations._draw import reset

HE = functools.partial(nn.init.kaiming_normal_, mode="fan_out", nonlinearity="relu")


def draw(model: nn.Module) -> None:
    reset(model, HE)
