"""What is minimised and how: losses and optimizers, the same in every mode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def optimizer(parameters: Iterable[Tensor], training: Mapping[str, Any]) -> torch.optim.Optimizer:
    """The framework's optimizer; every update is elementwise, so that runs can be stacked."""
    return torch.optim.SGD(
        parameters,
        lr=training["lr"],
        momentum=training["momentum"],
        weight_decay=training["weight_decay"],
        foreach=True,
    )
