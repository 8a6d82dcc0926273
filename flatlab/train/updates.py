"""Update rules of stacked parameters: all runs by a few kernels, each of them elementwise.

A rule has `state`, its tensors in the order of the parameters, and `step(gradients, rate)`. Adam,
RMSprop and what needs a second gradient, such as SAM, belong here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class GradientDescent:
    """Stochastic gradient descent with momentum and weight decay, as torch.optim.SGD defines it."""

    def __init__(self, parameters: list[Tensor], training: Mapping[str, Any]) -> None:
        self.parameters = parameters
        self.momentum, self.decay = training["momentum"], training["weight_decay"]
        self.state = [torch.zeros_like(p) for p in parameters] if self.momentum else []

    def step(self, gradients: list[Tensor], rate: float | Tensor) -> None:
        """One update, in place.

        gradients: in the order of the parameters; they are used up.  rate: the learning rate; a
        tensor of one number where the step is recorded and the rate may change behind it; (runs)
        where each run has its own.
        """
        if self.decay:
            torch._foreach_add_(gradients, self.parameters, alpha=self.decay)
        if self.momentum:
            torch._foreach_mul_(self.state, self.momentum)
            torch._foreach_add_(self.state, gradients)
            gradients = self.state
        if isinstance(rate, Tensor) and rate.ndim:
            torch._foreach_sub_(self.parameters, [_by_run(g, rate) for g in gradients])
        elif isinstance(rate, Tensor):
            torch._foreach_sub_(self.parameters, torch._foreach_mul(gradients, rate))
        else:
            torch._foreach_add_(self.parameters, gradients, alpha=-rate)


def _by_run(gradient: Tensor, rate: Tensor) -> Tensor:
    """A gradient (runs, ...) or (runs * channels, ...) times the rate of each run (runs)."""
    by_run = gradient.unflatten(0, (len(rate), -1))
    return (by_run * rate.view(-1, *[1] * gradient.ndim)).flatten(0, 1)
