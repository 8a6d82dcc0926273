"""Losses that training has not: functions of the user's, and of positions."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.core.registry import keys_of
from flatlab.losses._base import Loss, NoClosedForm

Function = Callable[[Tensor, Any], Tensor]
"""A user's loss, of outputs and targets."""


class OfFunction(Loss):
    """A user's loss: the mean over the samples of any function of one sample, or the sum.

    function: outputs (samples, ...) and targets (samples, ...) -> a number.
    integers: whether targets are classes.
    summed: whether the function adds samples up, in place of a mean.
    shape: of the outputs of one sample, as the function takes them.
    counts: of a function that is a mean over positions: how many of a sample's targets count, from
        targets, in units of the mean over all samples; None: samples count the same.
    classes: outputs for each position, where samples have positions.

    It has derivatives by autograd alone; what needs a closed form raises `NoClosedForm`.
    """

    def __init__(
        self,
        function: Function,
        integers: bool,
        summed: bool,
        shape: Callable[[Tensor], Tensor],
        counts: Callable[[Tensor], Tensor] | None = None,
        classes: int = 0,
    ) -> None:
        self.classes, self.function, self.integers = classes, function, integers
        self.shape, self.counts = shape, counts
        self.in_float64 = function
        if isinstance(function, nn.Module):  # it may hold weights of classes
            self.in_float64 = copy.deepcopy(function).double()
        self.summed = summed  # type: ignore[misc]

    def values(self, outputs: Tensor, targets: Tensor) -> Tensor:
        targets = targets.long() if self.integers else targets
        double = outputs.dtype == torch.float64
        function = self.in_float64 if double else self.function
        pairs = zip(self.shape(outputs).split(1), targets.split(1), strict=True)
        try:
            values = torch.stack([function(f, y).reshape(()) for f, y in pairs])
            return values if self.counts is None else values * self.counts(targets).to(values)
        except RuntimeError as error:
            if not double:
                raise
            why = str(error).splitlines()[0]
            raise NotImplementedError(
                f"the loss does not take outputs in float64 ({why}); let its constants have the "
                "precision of the outputs"
            ) from error

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        raise NoClosedForm(self._lacking("its derivative in the outputs"))

    def hessian_product(self, outputs: Tensor, directions: Tensor) -> Tensor:
        raise NoClosedForm(self._lacking("its second derivative in the outputs"))

    def curved(self, outputs: Tensor, directions: Tensor, targets: Tensor) -> Tensor:
        with torch.enable_grad():
            free = outputs.detach().requires_grad_()
            total = self.values(free, targets).sum()
            (slope,) = torch.autograd.grad(total, free, create_graph=True)
            if not slope.requires_grad:
                return torch.zeros_like(outputs)
            try:
                (product,) = torch.autograd.grad(slope, free, directions, materialize_grads=True)
            except RuntimeError as error:
                why = str(error).splitlines()[0]
                raise NotImplementedError(f"the loss has no second derivative: {why}") from error
        return product.detach()

    def reference(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.of_batch(self.values(outputs, targets))

    def _lacking(self, what: str) -> str:
        known = ", ".join(keys_of("losses"))
        return (
            f"a loss that is a function has no closed form of {what}, which this needs; losses by "
            f"name have one: {known}"
        )


class OfPositions(Loss):
    """The mean over the positions of all samples, the classes of a position side by side.

    With T the mean number of positions of a sample, the loss of a sample is the sum over its
    positions divided by T. The mean over samples, in batches of any size, is then that over all
    positions, also where samples have different numbers of them. Positions without a target count
    as none: their targets are NaN.

    base: the loss of a position.
    classes: outputs for each position.
    count: T, positions of a sample in the mean over the samples; None: all of them.
    """

    def __init__(self, base: Loss, classes: int, count: float | None = None) -> None:
        self.base, self.classes, self.count = base, classes, count
        self.summed = base.summed  # type: ignore[misc]

    def values(self, outputs: Tensor, targets: Tensor) -> Tensor:
        wanted, absent = self._targets(targets)
        of_positions = self.base.values(self._by_position(outputs), wanted)
        return of_positions.masked_fill(absent, 0).sum(-1) / self._count(absent)

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        wanted, absent = self._targets(targets)
        slopes = self.base.gradient(self._by_position(outputs), wanted)
        slopes = slopes.masked_fill(absent[..., None], 0)
        if not self.base.summed:  # the base has taken the mean over positions
            slopes = slopes * slopes.shape[-2]
        samples = 1 if self.summed else outputs.shape[-2]
        return slopes.flatten(-2) / (samples * self._count(absent))

    def hessian_product(self, outputs: Tensor, directions: Tensor) -> Tensor:
        """At all positions, also those without a target, where outputs do not change."""
        along = self._by_position(directions)
        curved = self.base.hessian_product(self._by_position(outputs), along)
        return curved.flatten(-2) / (self.count or curved.shape[-2])

    def curved(self, outputs: Tensor, directions: Tensor, targets: Tensor) -> Tensor:
        wanted, absent = self._targets(targets)
        parts = self._by_position(outputs), self._by_position(directions), wanted
        curved = self.base.curved(*(part.flatten(0, 1) for part in parts))
        curved = curved.view_as(wanted).masked_fill(absent[..., None], 0)
        return curved.flatten(-2) / self._count(absent)

    def unfit(self, targets: Tensor) -> str:
        rows = self._by_position(targets).flatten(0, 1)
        return self.base.unfit(rows[~rows.isnan().any(-1)])

    def least(self, targets: Tensor) -> Tensor:
        wanted, absent = self._targets(targets)
        least = self.base.least(wanted).masked_fill(absent, 0)
        return least.sum(-1) / self._count(absent)

    def like(self, other: Loss) -> Loss:
        return OfPositions(self.base.like(other), self.classes, self.count)

    def reference(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.of_batch(self.values(outputs, targets))

    def _by_position(self, flat: Tensor) -> Tensor:
        return flat.unflatten(-1, (-1, self.classes))

    def _targets(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Those of each position, 0 where there are none, and where that is: (..., positions)."""
        wanted = self._by_position(targets)
        absent = wanted.isnan().any(-1)
        return torch.where(absent[..., None], 0, wanted), absent

    def _count(self, absent: Tensor) -> float:
        return self.count or absent.shape[-1]
