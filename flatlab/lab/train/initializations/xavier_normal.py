"""Weights from N(0, 2/(fan-in + fan-out)); biases 0."""

from torch import nn

from flatlab.lab.train.initializations._draw import reset


def draw(model: nn.Module) -> None:
    reset(model, nn.init.xavier_normal_)
