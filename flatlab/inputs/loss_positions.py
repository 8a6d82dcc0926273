"""A loss of sequences and maps: the mean over the positions of all samples together.

With T the mean number of positions of a sample, the loss of a sample is the sum over its positions
divided by T. The mean over samples, in batches of any size, is then that over all positions, also
where samples have different numbers of them. Positions without a target count as none: their
targets are NaN.
"""

import torch
from torch import Tensor

from flatlab.losses._base import Loss as Base


class Loss(Base):
    """Of outputs and targets in which the classes of a position lie side by side.

    base: the loss of a position.
    classes: outputs for each position.
    count: T, positions of a sample in the mean over the samples; None: all of them.
    """

    def __init__(self, base: Base, classes: int, count: float | None = None) -> None:
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

    def like(self, other: Base) -> Base:
        return Loss(self.base.like(other), self.classes, self.count)

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
