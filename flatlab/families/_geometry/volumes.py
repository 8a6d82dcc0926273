"""Volumes and dimensions of Jacobians, from their singular values."""

import math

import torch
from torch import Tensor


def log_volumes(
    singular: Tensor, largest: str | int, eps: float, ranks: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Sum of ln sigma_k of each sample, and whether its Jacobian has full rank.

    singular: (samples, N), descending.  largest: how many, or "all" N.  ranks: of each sample in
    place of N, (samples,), beyond which they are 0; None: there are N. Without full rank
    (sigma_k <= 10 eps sigma_1) the volume is zero and its logarithm minus infinity.
    """
    chosen = singular if largest == "all" else singular[:, : int(largest)]
    if ranks is not None:
        count = ranks.clamp(max=chosen.shape[1])
        full = ~(chosen.gather(1, count[:, None] - 1)[:, 0] <= 10 * eps * singular[:, 0])
        counted = torch.arange(chosen.shape[1], device=chosen.device) < count[:, None]
        logs = torch.where(counted, chosen, 1).log().sum(1)
        return torch.where(full, logs, -torch.inf), full
    full = ~(chosen[:, -1] <= 10 * eps * singular[:, 0])  # or NaN
    return torch.where(full, chosen.log().sum(1), -torch.inf), full


def participation(singular: Tensor) -> Tensor:
    """(sum sigma^2)^2 / sum sigma^4 of each sample; NaN if J = 0."""
    share = (singular / singular[:, :1]).square()
    return share.sum(1).square() / share.square().sum(1)


def log_mean(logs: Tensor) -> Tensor:
    """ln of the mean over the last dimension of exp(logs)."""
    return torch.logsumexp(logs, -1) - math.log(logs.shape[-1])
