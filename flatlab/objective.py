"""What is minimised: losses, with their derivatives written out.

half-mse: |f - y|^2 / 2.  mean-mse: the mean over outputs of (f - y)^2, that is, 2/outputs times as
much.  cross-entropy: -sum_k t_k log softmax(f)_k with targets t = (1 - a) y + a / outputs, where a
is the label smoothing.  logistic: log(1 + exp(-y f)) of targets y = +-1, added up over the outputs.
Each is averaged over the batch.

sum-of-squares: |f - y|^2, added up over the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def sample_losses(outputs: Tensor, targets: Tensor, training: Mapping[str, Any]) -> Tensor:
    """The loss of each sample; outputs (..., batch, outputs), targets broadcast to them."""
    if training["loss"] == "cross-entropy":
        targets = _smoothed(targets, training["label_smoothing"])
        return -(targets * outputs.log_softmax(-1)).sum(-1)
    if training["loss"] == "logistic":
        return -logsigmoid(targets * outputs).sum(-1)
    squared = (outputs - targets).square().sum(-1)
    return squared / {"half-mse": 2, "mean-mse": outputs.shape[-1]}.get(training["loss"], 1)


def total_loss(losses: Tensor, training: Mapping[str, Any]) -> Tensor:
    """The loss of a set of samples: (..., samples) -> (...)."""
    return losses.sum(-1) if training["loss"] == "sum-of-squares" else losses.mean(-1)


def share(part: int, whole: int, training: Mapping[str, Any]) -> float:
    """What the loss of `part` of `whole` samples counts in that of all of them."""
    return 1.0 if training["loss"] == "sum-of-squares" else part / whole


def loss_gradient(outputs: Tensor, targets: Tensor, training: Mapping[str, Any]) -> Tensor:
    """The derivative of the loss of each batch with respect to the outputs; shaped like these."""
    batch, width = outputs.shape[-2:]
    if training["loss"] == "cross-entropy":
        targets = _smoothed(targets, training["label_smoothing"])
        return outputs.softmax(-1).sub_(targets).div_(batch)
    if training["loss"] == "logistic":
        return (-targets * outputs).sigmoid_().mul_(targets).div_(-batch)
    factors = {"half-mse": 1 / batch, "mean-mse": 2 / batch / width, "sum-of-squares": 2.0}
    return (outputs - targets).mul_(factors[training["loss"]])


def loss_hessian_product(
    outputs: Tensor, directions: Tensor, training: Mapping[str, Any]
) -> Tensor:
    """The second derivative of each sample's loss with respect to its outputs, times a direction.

    outputs, directions: (..., outputs). With p = softmax(f) that of cross-entropy is
    diag(p) - p p^T, whatever the targets; so is that of logistic, s(f) s(-f), s the sigmoid.
    """
    if training["loss"] == "cross-entropy":
        p = outputs.softmax(-1)
        return p * (directions - (p * directions).sum(-1, keepdim=True))
    if training["loss"] == "logistic":
        return directions * outputs.sigmoid() * (-outputs).sigmoid()
    factors = {"half-mse": 1.0, "mean-mse": 2 / outputs.shape[-1], "sum-of-squares": 2.0}
    return directions * factors[training["loss"]]


def framework_loss(outputs: Tensor, targets: Tensor, training: Mapping[str, Any]) -> Tensor:
    """The loss of a batch as the framework computes it: the reference."""
    if training["loss"] == "cross-entropy":
        smoothing = training["label_smoothing"]
        return torch.nn.functional.cross_entropy(outputs, targets, label_smoothing=smoothing)
    if training["loss"] == "logistic":
        soft = torch.nn.functional.soft_margin_loss(outputs, targets, reduction="sum")
        return soft / len(outputs)
    if training["loss"] == "mean-mse":
        return torch.nn.functional.mse_loss(outputs, targets)
    squares = torch.nn.functional.mse_loss(outputs, targets, reduction="sum")
    return squares if training["loss"] == "sum-of-squares" else squares / (2 * len(outputs))


def _smoothed(targets: Tensor, smoothing: float) -> Tensor:
    return (
        targets.lerp(torch.full_like(targets, 1 / targets.shape[-1]), smoothing)
        if smoothing
        else targets
    )
