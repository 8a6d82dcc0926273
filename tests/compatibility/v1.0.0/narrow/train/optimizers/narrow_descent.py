"""Gradient descent without momentum."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from flatlab.core.schema import Strict
from flatlab.lab.train.optimizers._update import descend


class Options(Strict, frozen=True):
    pass


class Stacked:
    def __init__(self, parameters: list[Tensor], training: Mapping[str, Any], runs: int) -> None:
        self.parameters, self.state = parameters, []

    def step(self, gradients: list[Tensor], rate: float | Tensor) -> None:
        descend(self.parameters, gradients, rate)


def reference(parameters: list[nn.Parameter], training: Mapping[str, Any]) -> Optimizer:
    return torch.optim.SGD(parameters, lr=0.0)


def state_of(update: Optimizer, parameter: nn.Parameter) -> list[Tensor]:
    return []
