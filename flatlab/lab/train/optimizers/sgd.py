"""Stochastic gradient descent with momentum and weight decay, as in torch.optim.SGD."""

from collections.abc import Mapping
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from flatlab.core.schema import Strict, means
from flatlab.lab.train.optimizers._update import ProductSteps


class Options(Strict, frozen=True):
    momentum: Annotated[float, means("heavy-ball momentum", ge=0, lt=1)] = 0.0
    weight_decay: Annotated[float, means("L2 penalty added to the gradient", ge=0)] = 0.0


def takes_products(training: Mapping[str, Any]) -> bool:
    """Whether a step only adds multiples of the gradients, at one rate."""
    one_rate = not isinstance(training["lr"], Mapping)
    return one_rate and not training["momentum"] and not training["weight_decay"]


class Stacked:
    """The update of stacked parameters; its state is the momenta, if any."""

    def __init__(self, parameters: list[Tensor], training: Mapping[str, Any], runs: int) -> None:
        self.parameters, self.products = parameters, ProductSteps()
        self.momentum, self.decay = training["momentum"], training["weight_decay"]
        self.state = [torch.zeros_like(p) for p in parameters] if self.momentum else []

    def step(self, gradients: list[Tensor], rate: float | Tensor) -> None:
        if self.decay:
            torch._foreach_add_(gradients, self.parameters, alpha=self.decay)
        if self.momentum:
            torch._foreach_mul_(self.state, self.momentum)
            torch._foreach_add_(self.state, gradients)
            gradients = self.state
        self.products.descend(self.parameters, gradients, rate)


def reference(parameters: list[nn.Parameter], training: Mapping[str, Any]) -> Optimizer:
    momentum, decay = training["momentum"], training["weight_decay"]
    return torch.optim.SGD(parameters, lr=0.0, momentum=momentum, weight_decay=decay)


def state_of(update: Optimizer, parameter: nn.Parameter) -> list[Tensor]:
    if not update.param_groups[0]["momentum"]:
        return []
    state = update.state[parameter]
    if state.get("momentum_buffer") is None:
        state["momentum_buffer"] = torch.zeros_like(parameter)
    return [state["momentum_buffer"]]
