"""-sum_k t_k log softmax(f)_k, averaged over the samples, of targets t = (1 - a) y + a / N.

a is the label smoothing, N the number of outputs.
"""

from typing import Annotated

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from flatlab.core.schema import Strict, means
from flatlab.losses._base import Loss as Base


class Options(Strict, frozen=True):
    label_smoothing: Annotated[
        float, means("weight of the uniform distribution in the targets", ge=0, lt=1)
    ] = 0.0


class Loss(Base):
    def __init__(self, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def values(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -(self.smoothed(targets) * outputs.log_softmax(-1)).sum(-1)

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs.softmax(-1).sub_(self.smoothed(targets)).div_(outputs.shape[-2])

    def hessian_product(self, outputs: Tensor, directions: Tensor) -> Tensor:
        """With diag(p) - p p^T, p = softmax(f)."""
        p = outputs.softmax(-1)
        return p * (directions - (p * directions).sum(-1, keepdim=True))

    def hessian_root(self, outputs: Tensor) -> Tensor:
        """diag(sqrt p) - p sqrt(p)^T, which has all digits where a class is almost certain."""
        p = outputs.double().softmax(-1).nan_to_num()
        root = p.sqrt()
        return root.diag_embed() - p[..., :, None] * root[..., None, :]

    def unfit(self, targets: Tensor) -> str:
        if targets.shape[1] == 1:
            return "the cross-entropy of one output is 0; name another loss"
        one = torch.ones_like(targets[:, 0])
        if bool(targets.min() < 0) or not torch.allclose(targets.sum(1), one, atol=1e-4):
            return (
                "targets are neither classes nor probabilities, so they have no cross-entropy; "
                "pass rows that sum to one, or name another loss"
            )
        return ""

    def least(self, targets: Tensor) -> Tensor:
        """The entropy of the smoothed targets."""
        return torch.special.entr(self.smoothed(targets)).sum(-1)

    def within(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """softmax(f) and the smoothed targets; c = 1/2 by Pinsker's inequality."""
        excess = self.values(outputs, targets) - self.least(targets)
        return outputs.softmax(-1), self.smoothed(targets), (2 * excess.clamp(min=0)).sqrt()

    def reference(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(outputs, targets, label_smoothing=self.label_smoothing)

    def smoothed(self, targets: Tensor) -> Tensor:
        """(1 - a) y + a / N."""
        if not self.label_smoothing:
            return targets
        return targets.lerp(torch.full_like(targets, 1 / targets.shape[-1]), self.label_smoothing)
