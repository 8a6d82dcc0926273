"""The cross-entropy of f / (T sd f), with the standard deviation over the outputs of a sample.

It does not depend on the scale of the outputs, which the cross-entropy drives to infinity. The best
outputs are the targets, whatever their scale. T is the temperature.
"""

from typing import Annotated

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from flatlab.core.schema import Strict, means
from flatlab.losses._base import Loss as Base
from flatlab.losses._base import NoClosedForm

LEAST = 1e-12
"""Outputs that are all the same are divided by this."""


class Options(Strict, frozen=True):
    temperature: Annotated[float, means("of the normalized outputs", gt=0)] = 1.0


class Loss(Base):
    def __init__(self, temperature: float = 1.0) -> None:
        self.temperature = temperature

    def values(self, outputs: Tensor, targets: Tensor) -> Tensor:
        scaled = outputs / (self.temperature * _deviation(outputs))
        return -(targets * scaled.log_softmax(-1)).sum(-1)

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """(q - z mean(z q)) / sd f, z the normalized outputs and q the derivative in them."""
        deviation = _deviation(outputs)
        z = (outputs - outputs.mean(-1, keepdim=True)) / deviation
        q = (z / self.temperature).softmax(-1) - targets
        q = q / (self.temperature * outputs.shape[-2])
        return (q - z * (z * q).mean(-1, keepdim=True)) / deviation

    def hessian_product(self, outputs: Tensor, directions: Tensor) -> Tensor:
        raise NoClosedForm("the second derivative of normalized-cross-entropy depends on targets")

    def curved(self, outputs: Tensor, directions: Tensor, targets: Tensor) -> Tensor:
        """Of the gradient, by autograd: it is symmetric."""
        with torch.enable_grad():
            free = outputs.detach().requires_grad_()
            slope = self.gradient(free, targets) * outputs.shape[-2]
            return torch.autograd.grad(slope, free, directions)[0]

    def unfit(self, targets: Tensor) -> str:
        if targets.shape[1] == 1:
            return "one output has no standard deviation; name another loss"
        return ""

    def least(self, targets: Tensor) -> Tensor:
        """That of the targets themselves."""
        return self.values(targets, targets)

    def reference(self, outputs: Tensor, targets: Tensor) -> Tensor:
        deviation = outputs.std(-1, correction=0, keepdim=True)
        return cross_entropy(outputs / (self.temperature * deviation), targets)


def _deviation(outputs: Tensor) -> Tensor:
    return outputs.var(-1, correction=0, keepdim=True).clamp(min=LEAST**2).sqrt()
