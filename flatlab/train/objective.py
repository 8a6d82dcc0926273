"""What is minimised and how: losses, and the updates of stacked parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def loss(outputs: Tensor, targets: Tensor, kind: str) -> Tensor:
    """Mean loss of a batch, summed over runs: each run's gradient is that of its own loss.

    outputs, targets: (batch, outputs), or (runs, batch, outputs) with a batch for each run.
    half-mse: mean over the batch of |f - y|^2 / 2.  mean-mse: mean over batch and outputs of the
    squared error, that is, 2/outputs times as much.
    """
    batch, width = outputs.shape[-2:]
    count = 2 * batch if kind == "half-mse" else batch * width
    return torch.nn.functional.mse_loss(outputs, targets, reduction="sum") / count


class GradientDescent:
    """Stochastic gradient descent with momentum and weight decay, as torch.optim.SGD defines it.

    All tensors are updated by a few kernels; for networks this small the framework's own optimizer
    takes a fifth of a step. Every update is elementwise, so that runs can be stacked.
    """

    def __init__(self, parameters: list[Tensor], training: Mapping[str, Any]) -> None:
        self.parameters, self.training = parameters, training
        self.velocity: tuple[Tensor, ...] | None = None

    @torch.no_grad()
    def step(self, gradients: tuple[Tensor, ...]) -> None:
        """One update; gradients in the order of the parameters."""
        if decay := self.training["weight_decay"]:
            gradients = torch._foreach_add(gradients, self.parameters, alpha=decay)
        if momentum := self.training["momentum"]:
            if self.velocity is None:
                self.velocity = gradients
            else:
                torch._foreach_mul_(self.velocity, momentum)
                torch._foreach_add_(self.velocity, gradients)
            gradients = self.velocity
        torch._foreach_add_(self.parameters, gradients, alpha=-self.training["lr"])
