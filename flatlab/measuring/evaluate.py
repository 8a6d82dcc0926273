"""Evaluate a user's network: mean loss and accuracy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.core.schema import PlanError, refuse_unknown
from flatlab.inputs.arguments import Arguments
from flatlab.inputs.losses import Function, loss_for, options_known, with_options
from flatlab.inputs.prepare import prepared
from flatlab.losses._base import Loss
from flatlab.measuring.quantity import Samples

BATCH = 1000
"""Samples at a time, unless a batch size is given."""
UNITS = {"loss": ("mean loss of the samples", "loss"), "accuracy": ("share that is right", "1")}


@dataclass(frozen=True)
class Evaluated:
    """A network, its samples and its loss, made ready.

    model: maps (samples, ...) to (samples, N).
    samples: the sample set.
    loss: of a sample.
    targets: (samples, N), as the loss takes them.
    size: samples at a time.
    """

    model: nn.Module
    samples: Samples
    loss: Loss
    targets: Tensor
    size: int

    @torch.no_grad()
    def values(
        self, model: nn.Module | None = None, tick: Callable[[], None] = lambda: None
    ) -> dict[str, float]:
        """The loss, and the accuracy where there are classes.

        model: the same network with other weights; None: as it is.
        tick: called after each of `batches`.
        """
        model, count = model or self.model, len(self.samples.inputs)
        total, right = 0.0, 0
        of_positions = self.samples.position_labels
        classes = self.samples.labels if of_positions is None else of_positions
        parts = (self.samples.inputs, self.targets, classes)
        for x, y, labels in zip(*(self._split(part) for part in parts), strict=True):
            outputs = model(x.clone())
            tick()
            total += float(self.loss.values(outputs, y).double().sum()) * self.loss.share(1, count)
            if labels is None or outputs.shape[1] == 1:
                continue
            right += int((outputs.unflatten(1, (*labels.shape[1:], -1)).argmax(-1) == labels).sum())
        if classes is None or outputs.shape[1] == 1:
            return {"loss": total}
        return {"loss": total, "accuracy": right / int((classes >= 0).sum())}

    @property
    def batches(self) -> int:
        """How many evaluations the samples take."""
        return -(-len(self.samples.inputs) // self.size)

    def _split(self, part: Tensor | None) -> Any:
        if part is None:
            return [None] * self.batches
        return part.split(self.size)


def evaluated(
    model: nn.Module,
    inputs: Any,
    targets: Any,
    loss: str | Function,
    how: Arguments,
    options: Mapping[str, Any],
) -> Evaluated:
    """A network, its samples and its loss.

    how: the arguments of the measurement.
    options: of the loss.

    Raises `MeasureError` where they do not fit each other.
    """
    try:
        refuse_unknown(options, options_known(loss), f"options of {loss}")
        given = with_options(loss, options)
    except PlanError as error:
        raise MeasureError(str(error)) from None
    ready = prepared(model, inputs, targets, how, named=isinstance(given, Loss))
    chosen, sample_set = loss_for(given, ready)
    with torch.no_grad():
        outputs = ready.model(sample_set.inputs[:2].clone()).shape[1]
    y = sample_set.targets_for(outputs, chosen)
    kept = replace(sample_set, labels=ready.samples.labels)
    return Evaluated(ready.model, kept, chosen, y, how.batch_size or BATCH)
