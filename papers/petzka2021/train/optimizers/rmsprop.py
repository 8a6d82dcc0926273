"""RMSprop as in torch.optim.RMSprop, with the same epsilon, not centred; weight decay is L2."""

from collections.abc import Mapping
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from flatlab.core.schema import Strict, means
from flatlab.lab.train.optimizers._update import descend

EPSILON = 1e-8


class Options(Strict, frozen=True):
    alpha: Annotated[float, means("memory of the mean of squared gradients", ge=0, lt=1)] = 0.99
    momentum: Annotated[float, means("heavy-ball momentum", ge=0, lt=1)] = 0.0
    weight_decay: Annotated[float, means("L2 penalty added to the gradient", ge=0)] = 0.0


class Stacked:
    """The update of stacked parameters; its state is the mean squares, and the momenta, if any."""

    def __init__(self, parameters: list[Tensor], training: Mapping[str, Any], runs: int) -> None:
        self.parameters, self.alpha = parameters, training["alpha"]
        self.momentum, self.decay = training["momentum"], training["weight_decay"]
        self.squares = [torch.zeros_like(p) for p in parameters]
        self.momenta = [torch.zeros_like(p) for p in parameters] if self.momentum else []
        self.state = [*self.squares, *self.momenta]

    def step(self, gradients: list[Tensor], rate: float | Tensor) -> None:
        if self.decay:
            torch._foreach_add_(gradients, self.parameters, alpha=self.decay)
        torch._foreach_mul_(self.squares, self.alpha)
        torch._foreach_addcmul_(self.squares, gradients, gradients, 1 - self.alpha)
        roots = torch._foreach_sqrt(self.squares)
        torch._foreach_add_(roots, EPSILON)
        torch._foreach_div_(gradients, roots)
        if self.momentum:
            torch._foreach_mul_(self.momenta, self.momentum)
            torch._foreach_add_(self.momenta, gradients)
            gradients = self.momenta
        descend(self.parameters, gradients, rate)


def reference(parameters: list[nn.Parameter], training: Mapping[str, Any]) -> Optimizer:
    # One parameter after the other, which rounds the same on every machine.
    options = {key: training[key] for key in ("alpha", "momentum", "weight_decay")}
    return torch.optim.RMSprop(parameters, lr=0.0, eps=EPSILON, foreach=False, **options)


def state_of(update: Optimizer, parameter: nn.Parameter) -> list[Tensor]:
    state = update.state[parameter]
    names = ["step", "square_avg", *["momentum_buffer"] * bool(update.param_groups[0]["momentum"])]
    if not state:
        state["step"] = torch.tensor(0.0)
        state |= {name: torch.zeros_like(parameter) for name in names[1:]}
    return [state[name] for name in names]
