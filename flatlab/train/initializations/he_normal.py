"""Weights from N(0, 2/fan-out); biases 0."""

from torch import Tensor, nn

from flatlab.train.initializations import reset


def draw(model: nn.Module) -> None:
    reset(model, _he)


def _he(weight: Tensor) -> Tensor:
    return nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu")
