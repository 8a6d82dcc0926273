"""The cross-entropy with weights of classes: a weighted mean over the samples, as in torch.

With w_k the weight of class k and t the targets, smoothed if they are, the loss of a sample is
-sum_k w_k t_k log softmax(f)_k, divided by the mean of w over the classes of all samples that are
measured. The mean over samples, in batches of any size, is then torch's sum over them divided by
the sum of their weights.
"""

from torch import Tensor
from torch.nn.functional import cross_entropy

from flatlab.losses import cross_entropy as unweighted
from flatlab.losses._base import Loss as Base
from flatlab.losses._base import NoClosedForm


class Loss(Base):
    """base: without weights.  weights: of the classes, (N).  mean: of those of the samples."""

    weighted = True

    def __init__(self, base: unweighted.Loss, weights: Tensor, mean: float = 1.0) -> None:
        self.base, self.weights, self.mean = base, weights, mean

    def values(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -(self._weighted(targets) * outputs.log_softmax(-1)).sum(-1) / self.mean

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        weighted = self._weighted(targets)
        slopes = outputs.softmax(-1) * weighted.sum(-1, keepdim=True) - weighted
        return slopes / (self.mean * outputs.shape[-2])

    def hessian_product(self, outputs: Tensor, directions: Tensor) -> Tensor:
        raise NoClosedForm(
            "with class weights the second derivative of the loss in the outputs depends on the "
            "class of a sample, which this does not know; name another loss for it with "
            "relative_flatness_loss=, or the other quantities with quantities="
        )

    def curved(self, outputs: Tensor, directions: Tensor, targets: Tensor) -> Tensor:
        weight = self._weighted(targets).sum(-1, keepdim=True)
        return weight * self.base.hessian_product(outputs, directions) / self.mean

    def unfit(self, targets: Tensor) -> str:
        if targets.shape[-1] != len(self.weights):
            return f"there are {len(self.weights)} class weights and {targets.shape[-1]} outputs"
        return self.base.unfit(targets)

    def least(self, targets: Tensor) -> Tensor:
        """-sum_k t_k log(t_k / sum_j t_j), t weighted."""
        weighted = self._weighted(targets)
        total = weighted.sum(-1, keepdim=True)
        return (weighted.xlogy(total) - weighted.xlogy(weighted)).sum(-1) / self.mean

    def within(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """softmax(f) and the weighted targets over their sum; c = their sum / 2 by Pinsker's."""
        weighted = self._weighted(targets)
        total = weighted.sum(-1, keepdim=True)
        excess = (self.values(outputs, targets) - self.least(targets)) * self.mean / total[..., 0]
        return outputs.softmax(-1), weighted / total, (2 * excess.clamp(min=0)).sqrt()

    def like(self, other: Base) -> Base:
        if not isinstance(other, unweighted.Loss):
            return other
        return Loss(other, self.weights, self.mean)

    def reference(self, outputs: Tensor, targets: Tensor) -> Tensor:
        weights, smoothing = self.weights.to(outputs), self.base.label_smoothing
        total = cross_entropy(outputs, targets, weights, reduction="sum", label_smoothing=smoothing)
        return total / (self.mean * len(outputs))

    def _weighted(self, targets: Tensor) -> Tensor:
        return self.base.smoothed(targets) * self.weights.to(targets)
