"""What is minimised and how: losses, and the updates of stacked parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def loss(outputs: Tensor, targets: Tensor, kind: str) -> Tensor:
    """Mean loss of a batch, a scalar; outputs and targets (batch, outputs).

    half-mse: mean over the batch of |f - y|^2 / 2.  mean-mse: mean over batch and outputs of the
    squared error, that is, 2/outputs times as much.
    """
    squared = torch.nn.functional.mse_loss(outputs, targets, reduction="sum")
    return squared / _divisor(outputs, kind)


def loss_gradient(outputs: Tensor, targets: Tensor, kind: str) -> Tensor:
    """The derivative of `loss` with respect to the outputs; (..., batch, outputs) like these."""
    return (outputs - targets).mul_(2 / _divisor(outputs, kind))


def _divisor(outputs: Tensor, kind: str) -> int:
    """What the sum of squared errors is divided by."""
    batch, width = outputs.shape[-2:]
    return 2 * batch if kind == "half-mse" else batch * width


class GradientDescent:
    """Stochastic gradient descent with momentum and weight decay, as torch.optim.SGD defines it.

    All tensors are updated by a few kernels, and each elementwise, so that runs can be stacked.
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
