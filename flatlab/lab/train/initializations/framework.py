"""The default of each torch module: weights and biases uniform within +-1/sqrt(fan-in)."""

from torch import nn

from flatlab.lab.train.initializations._draw import reset


def draw(model: nn.Module) -> None:
    reset(model)
