"""The squared errors |f - y|^2 / d, which differ in the divisor d and in mean or sum."""

from abc import abstractmethod

from torch import Tensor
from torch.nn.functional import mse_loss

from flatlab.losses._base import Loss


class SquaredError(Loss):
    """|f - y|^2 / d."""

    @abstractmethod
    def divisor(self, outputs: int) -> float:
        """d, for a number of outputs."""

    def values(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().sum(-1) / self.divisor(outputs.shape[-1])

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        samples, width = outputs.shape[-2:]
        return (outputs - targets).mul_(2 * self.share(1, samples) / self.divisor(width))

    def hessian_product(self, outputs: Tensor, directions: Tensor) -> Tensor:
        return directions * (2 / self.divisor(outputs.shape[-1]))

    def within(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The outputs and the targets; e is their distance."""
        distance = (self.values(outputs, targets) * self.divisor(outputs.shape[-1])).sqrt()
        return outputs, targets, distance

    def reference(self, outputs: Tensor, targets: Tensor) -> Tensor:
        samples, width = outputs.shape
        squares = mse_loss(outputs, targets, reduction="sum")
        return squares / (self.divisor(width) * (1 if self.summed else samples))
