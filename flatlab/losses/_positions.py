"""A loss of sequences and maps: the mean over their positions."""

from torch import Tensor

from flatlab.losses._base import Loss as Base


class Loss(Base):
    """Of outputs and targets in which the classes of a position lie side by side.

    base: the loss of a position.
    classes: outputs for each position.
    """

    def __init__(self, base: Base, classes: int) -> None:
        self.base, self.classes = base, classes
        self.summed = base.summed  # type: ignore[misc]

    def _by_position(self, flat: Tensor) -> Tensor:
        return flat.unflatten(-1, (-1, self.classes))

    def values(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.base.values(self._by_position(outputs), self._by_position(targets)).mean(-1)

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        slopes = self.base.gradient(self._by_position(outputs), self._by_position(targets))
        samples = 1 if self.summed else outputs.shape[-2]
        # The base has taken the mean over positions, or their sum.
        positions = self._by_position(outputs).shape[-2] if self.base.summed else 1
        return slopes.flatten(-2) / (samples * positions)

    def hessian_product(self, outputs: Tensor, directions: Tensor) -> Tensor:
        curved = self.base.hessian_product(
            self._by_position(outputs), self._by_position(directions)
        )
        return curved.flatten(-2) / curved.shape[-2]

    def unfit(self, targets: Tensor) -> str:
        return self.base.unfit(self._by_position(targets).flatten(0, 1))

    def least(self, targets: Tensor) -> Tensor:
        return self.base.least(self._by_position(targets)).mean(-1)

    def reference(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.of_batch(self.values(outputs, targets))
