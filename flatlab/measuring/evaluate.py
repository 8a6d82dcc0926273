"""Evaluate a user's network: mean loss and accuracy."""

from collections.abc import Callable, Mapping
from math import isfinite, nan
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.core.schema import PlanError, refuse_unknown
from flatlab.derivatives.per_sample.probe import run
from flatlab.inputs.arguments import separated
from flatlab.inputs.loss_forms import Function
from flatlab.inputs.losses import options_known, with_options
from flatlab.inputs.prepare import Ready, made_ready

BATCH = 1000
"""Samples at a time, unless a batch size is given."""
ABOUT = {
    "loss": {"long_name": "mean loss of the samples", "units": "loss"},
    "accuracy": {"long_name": "share that is right", "units": "1"},
}


def ready_to_evaluate(
    model: nn.Module, inputs: Any, targets: Any, loss: str | Function, given: Mapping[str, Any]
) -> Ready:
    """A network, its samples and its loss.

    given: the arguments of the measurement, and options of the loss.

    Raises `MeasureError` where they do not fit each other.
    """
    try:
        how, options = separated(given)
        refuse_unknown(options, options_known(loss), f"options of {loss}")
        ready = made_ready(model, inputs, targets, with_options(loss, options), how)
    except PlanError as error:
        raise MeasureError(str(error)) from None
    assert len(ready.targets)
    return ready


@torch.no_grad()
def evaluate(
    ready: Ready, size: int, model: nn.Module, tick: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """The mean loss, and the accuracy where there are classes; NaN if the loss is not finite.

    size: samples at a time.
    model: that of `ready`, perhaps with other weights.
    tick: called after each evaluation.
    """
    samples, count = ready.samples, len(ready.samples.inputs)
    total, right = 0.0, 0
    classes = samples.labels if samples.position_labels is None else samples.position_labels
    for rows in torch.arange(count).split(size):
        first, last = int(rows[0]), int(rows[-1]) + 1
        outputs = run(model, samples.inputs[first:last])
        tick()
        values = ready.loss.values(outputs, ready.targets[first:last])
        total += float(values.double().sum()) * ready.loss.share(1, count)
        if classes is not None and outputs.shape[1] > 1:
            labels: Tensor = classes[first:last]
            scores = outputs.unflatten(1, (*labels.shape[1:], -1))
            right += int((scores.argmax(-1) == labels).sum())
    if classes is None or outputs.shape[1] == 1:
        return {"loss": total}
    share = right / int((classes >= 0).sum())
    return {"loss": total, "accuracy": share if isfinite(total) else nan}
