"""Mixup: samples and targets are mixed with those of a partner in the same minibatch.

(x, y) becomes (1 - t) (x, y) + t (x', y'), with one share t ~ Beta(a, a) and one permutation, which
says the partners, for each minibatch of each network. Source: Zhang et al. (2018), "mixup: beyond
empirical risk minimization". Assumption: one share for each minibatch, as in the authors' code.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from flatlab.core.schema import Strict, means
from flatlab.data._tensors import Split
from flatlab.lab.train.errors import TrainError
from flatlab.losses._base import loss_of

STRENGTH = "mixup_alpha"


class Options(Strict, frozen=True):
    mixup_alpha: Annotated[float, means("a of the shares, drawn from Beta(a, a); 0: none", ge=0)]


class Transform:
    """Raises `TrainError` if targets cannot be mixed."""

    def __init__(self, options: Mapping[str, Any], split: Split) -> None:
        if loss_of(options).signs:
            raise TrainError(
                f"training.loss {options['loss']} has no mixed targets, as mixup needs"
            )
        self.alpha = options[STRENGTH]

    def draw(self, generator: np.random.Generator, steps: int, batch: int) -> dict[str, np.ndarray]:
        """share: (steps).  partner: positions in the minibatch, (steps, batch)."""
        order = np.tile(np.arange(batch), (steps, 1))
        return {
            "share": generator.beta(self.alpha, self.alpha, size=steps),
            "partner": generator.permuted(order, axis=1),
        }

    def apply(
        self, inputs: Tensor, targets: Tensor, share: Tensor, partner: Tensor
    ) -> tuple[Tensor, Tensor]:
        runs, batch = partner.shape
        first = torch.arange(0, runs * batch, batch, device=partner.device)
        rows = (partner + first[:, None]).flatten()

        def mixed(x: Tensor) -> Tensor:
            other = x.flatten(0, 1).index_select(0, rows).view_as(x)
            return x.lerp(other, share.view(-1, *[1] * (x.ndim - 1)))

        return mixed(inputs), mixed(targets)
