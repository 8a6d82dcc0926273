"""Stochastic gradient descent with another rate in the upper half of a network.

The upper half is that of the parameters in their order, weights and biases: of a perceptron with
four weight matrices the last two. Its rate is `upper_factor` times `training.lr`, at every step.
Its gradients are multiplied by that, which rounds nothing for powers of two.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from flatlab.core.schema import Strict, means
from flatlab.lab.train.optimizers._update import ProductSteps
from flatlab.lab.train.stacked_layers import Product


class Options(Strict, frozen=True):
    upper_factor: Annotated[float, means("rate of the upper half of the layers, over lr", gt=0)]


def takes_products(training: Mapping[str, Any]) -> bool:
    """Whether all runs have one rate."""
    return not isinstance(training["lr"], Mapping)


class Stacked:
    """The update of stacked parameters, without a state."""

    def __init__(self, parameters: list[Tensor], training: Mapping[str, Any], runs: int) -> None:
        self.parameters, self.products = parameters, ProductSteps()
        self.upper, self.factor = len(parameters) // 2, training["upper_factor"]
        self.state: list[Tensor] = []

    def step(self, gradients: list[Any], rate: float | Tensor) -> None:
        upper = [_times(gradient, self.factor) for gradient in gradients[self.upper :]]
        self.products.descend(self.parameters, gradients[: self.upper] + upper, rate)


def _times(gradient: Any, factor: float) -> Any:
    if isinstance(gradient, Product):
        return Product(gradient.left * factor, gradient.right)
    return gradient.mul_(factor)


def reference(parameters: list[nn.Parameter], training: Mapping[str, Any]) -> Optimizer:
    upper = parameters[len(parameters) // 2 :]

    def multiply(*_: Any) -> None:
        for parameter in upper:
            if parameter.grad is not None:
                parameter.grad.mul_(training["upper_factor"])

    optimizer = torch.optim.SGD(parameters, lr=0.0)
    optimizer.register_step_pre_hook(multiply)
    return optimizer


def state_of(update: Optimizer, parameter: nn.Parameter) -> list[Tensor]:
    return []
