"""A loss of the user's own: any function of outputs and targets."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.core.registry import keys_of
from flatlab.losses._base import Loss as Base
from flatlab.losses._base import NoClosedForm


class Loss(Base):
    """The mean over the samples of a function of one sample, or the sum.

    function: outputs (samples, ...) and targets (samples, ...) -> a number.
    integers: whether targets are classes.
    summed: whether the function adds samples up, in place of a mean.
    shape: of the outputs of one sample, as the function takes them.
    counts: of a function that is a mean over positions: how many of a sample's targets count, from
        targets, in units of the mean over all samples; None: samples count the same.
    classes: outputs for each position, where samples have positions.
    restored: targets as the function takes them, from those of one tensor (samples, ...).

    It has derivatives by autograd alone; what needs a closed form raises `NoClosedForm`.
    """

    def __init__(
        self,
        function: Callable[[Tensor, Any], Tensor],
        integers: bool,
        summed: bool,
        shape: Callable[[Tensor], Tensor],
        counts: Callable[[Tensor], Tensor] | None = None,
        classes: int = 0,
        restored: Callable[[Tensor], Any] = lambda targets: targets,
    ) -> None:
        self.classes, self.restored = classes, restored
        self.function, self.integers, self.shape, self.counts = function, integers, shape, counts
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
            values = torch.stack([function(f, self.restored(y)).reshape(()) for f, y in pairs])
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
