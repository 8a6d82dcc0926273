"""A loss of the user's own: any function of outputs and targets."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from flatlab.losses._base import Loss as Base
from flatlab.plan.registry import keys_of


class Loss(Base):
    """The mean over the samples of a function of one sample, or the sum.

    function: outputs (samples, N) and targets (samples, ...) -> a number.
    integers: whether targets are classes.
    summed: whether the function adds samples up, in place of a mean.

    It has derivatives by autograd alone; what needs a closed form raises `NotImplementedError`.
    """

    def __init__(
        self, function: Callable[[Tensor, Tensor], Tensor], integers: bool, summed: bool
    ) -> None:
        self.function, self.integers = function, integers
        self.in_float64 = function
        if isinstance(function, nn.Module):  # it may hold weights of classes
            self.in_float64 = copy.deepcopy(function).double()
        self.summed = summed  # type: ignore[misc]

    def values(self, outputs: Tensor, targets: Tensor) -> Tensor:
        targets = targets.long() if self.integers else targets
        double = outputs.dtype == torch.float64
        function = self.in_float64 if double else self.function
        pairs = zip(outputs.split(1), targets.split(1), strict=True)
        try:
            return torch.stack([function(f, y).reshape(()) for f, y in pairs])
        except RuntimeError as error:
            if not double:
                raise
            why = str(error).splitlines()[0]
            raise NotImplementedError(
                f"the loss does not take outputs in float64 ({why}); let its constants have the "
                "precision of the outputs"
            ) from error

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        raise NotImplementedError(self._lacking("its derivative in the outputs"))

    def hessian_product(self, outputs: Tensor, directions: Tensor) -> Tensor:
        raise NotImplementedError(self._lacking("its second derivative in the outputs"))

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
        return self.function(outputs, targets.long() if self.integers else targets)

    def _lacking(self, what: str) -> str:
        known = ", ".join(keys_of("losses"))
        return (
            f"a loss that is a function has no closed form of {what}, which this needs; losses by "
            f"name have one: {known}"
        )
