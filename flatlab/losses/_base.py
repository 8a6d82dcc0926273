"""The interface of a loss, and the loss that settings name."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from flatlab.core.options import options_of
from flatlab.core.registry import check_known, imported

ROUNDING = 1e-9
"""Of eigenvalues of second derivatives, relative to one plus the largest."""


class NoClosedForm(NotImplementedError):
    """A loss has no closed form of what is asked for; the message says what and why."""


class Loss(ABC):
    """A loss l(f, y) of outputs f and targets y, with its derivatives written out.

    The loss of a batch is the mean over its samples, or their sum where `summed`.
    """

    summed: ClassVar[bool] = False
    signs: ClassVar[bool] = False
    """Whether targets are +-1, so that a mixture of two targets is none."""
    weighted: ClassVar[bool] = False
    """Whether classes have weights."""
    classes: int = 0
    """Outputs for each position, where samples have positions; otherwise 0."""

    @abstractmethod
    def values(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of each sample: (..., samples, outputs) -> (..., samples)."""

    @abstractmethod
    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The derivative of the batch's loss with respect to the outputs, of the same shape."""

    @abstractmethod
    def hessian_product(self, outputs: Tensor, directions: Tensor) -> Tensor:
        """The second derivative of each sample's loss in its outputs, times a direction.

        outputs, directions: (..., outputs). It does not depend on the targets of any loss here.
        """

    def curved(self, outputs: Tensor, directions: Tensor, targets: Tensor) -> Tensor:
        """The same for losses whose second derivative may depend on the targets.

        outputs, directions: (samples, outputs).  targets: (samples, ...).
        """
        return self.hessian_product(outputs, directions)

    def hessian_root(self, outputs: Tensor) -> Tensor:
        """C with C C^T = d^2 l/df^2, in float64: (samples, outputs) -> (samples, outputs, outputs).

        Here the symmetric root, which depends on an output continuously. Raises `ValueError` if the
        loss is not convex.
        """
        unit = torch.eye(outputs.shape[1]).to(outputs).expand(len(outputs), -1, -1)
        curvature = self.hessian_product(outputs[:, None], unit)
        values, vectors = torch.linalg.eigh(curvature.double().nan_to_num())
        if bool((values[:, 0] < -ROUNDING * (1 + values[:, -1])).any()):
            raise ValueError("the loss is not convex in the outputs")
        return (vectors * values.clamp(min=0).sqrt()[:, None]) @ vectors.mT

    def unfit(self, targets: Tensor) -> str:
        """Why targets (samples, outputs) mean nothing to this loss; "" if they do."""
        return ""

    def least(self, targets: Tensor) -> Tensor:
        """The infimum of each sample's loss over all outputs: (..., samples)."""
        return targets.new_zeros(targets.shape[:-1])

    def within(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Predictions F, their targets y, and the distance e that the loss allows between them.

        l - inf l >= c |F - y|^2 for some c, and e = sqrt((l - inf l)/c) >= |F - y|.
        F, y: (samples, outputs).  e: (samples). Raises `NotImplementedError` without such a c.
        """
        raise NotImplementedError

    def like(self, other: "Loss") -> "Loss":
        """Another loss, of the same samples: with what this one knows of them."""
        return other

    @abstractmethod
    def reference(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of one batch as torch computes it."""

    def of_batch(self, values: Tensor) -> Tensor:
        """The loss of a batch from those of its samples: (..., samples) -> (...)."""
        return values.sum(-1) if self.summed else values.mean(-1)

    def share(self, part: int, whole: int) -> float:
        """The weight of the loss of `part` samples in the loss of a batch of `whole` samples."""
        return 1.0 if self.summed else part / whole


def loss_of(settings: Mapping[str, Any]) -> Loss:
    """The loss that settings name by `loss`, with those of its options that they state.

    Raises `PlanError`, a `ValueError`, where there is no such loss.
    """
    name = settings["loss"]
    check_known("losses", name, "loss")
    options = options_of("losses", name).__struct_fields__
    stated = {key: settings[key] for key in options if key in settings}
    return imported("losses", name).Loss(**stated)
