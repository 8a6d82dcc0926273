"""The loss of a measurement: by its name, with options and class weights, or a function."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatlab.core.errors import MeasureError
from flatlab.core.options import checked, options_of
from flatlab.core.registry import check_known, keys_of
from flatlab.core.schema import plain
from flatlab.derivatives.checks.isolation import preserving_state
from flatlab.inputs import loss_function as _function
from flatlab.inputs import loss_positions as _positions
from flatlab.inputs import weighted_loss as _weighted
from flatlab.inputs.batches import tensor_of
from flatlab.inputs.prepare import Prepared
from flatlab.losses import cross_entropy
from flatlab.losses._base import Loss, loss_of
from flatlab.measuring.quantity import Samples

Function = Callable[[Tensor, Any], Tensor]
Weights = Sequence[float] | np.ndarray | Tensor


def options_known(loss: str | Function) -> set[str]:
    """The names of the options of a loss; a function has none.

    Raises `PlanError` or `MeasureError` where it is neither the name of a loss nor a function.
    """
    if isinstance(loss, str):
        check_known("losses", loss, "loss")
        return set(options_of("losses", loss).__struct_fields__)
    if not callable(loss):
        names = ", ".join(keys_of("losses"))
        raise MeasureError(f"loss is {loss!r}: neither a function nor one of {names}")
    return set()


def with_options(loss: str | Function, options: Mapping[str, Any]) -> Loss | Function:
    """A loss by its name with those of the options that are its own; a function as it is."""
    options_known(loss)
    if not isinstance(loss, str):
        return loss
    return loss_of({**plain(checked(options, options_of("losses", loss))), "loss": loss})


def loss_for(
    loss: Loss | Function, ready: Prepared, weights: Weights | None
) -> tuple[Loss, Samples]:
    """The loss of the outputs of a network, and the samples with the targets that it takes.

    loss: one of this project's; or a function of outputs and targets, which must be the mean of its
        values on single samples, or their sum, or the mean over all positions.
    ready: the network and its samples.
    weights: of classes, for the cross-entropy.
    """
    samples, classes = ready.samples, ready.outputs.classes
    if weights is not None:
        loss = _weighted_by_class(loss, samples, classes, weights)
    if not isinstance(loss, Loss):
        return _of_function(loss, ready)
    if not classes:
        return loss, samples
    count = None if samples.kept is None else float(samples.kept.sum()) / len(samples.kept)
    return _positions.Loss(loss, classes, count), samples


def _weighted_by_class(
    loss: Loss | Function, samples: Samples, classes: int, given: Weights
) -> _weighted.Loss:
    if not isinstance(loss, cross_entropy.Loss):
        raise MeasureError(
            "class_weights belong to loss='cross-entropy'; other losses, by name or functions, "
            "have none, or their own"
        )
    weights = tensor_of(given, "class_weights").double().to(samples.inputs.device)
    if weights.ndim != 1 or not bool((weights.isfinite() & (weights >= 0)).all()):
        raise MeasureError("class_weights must be a list of one number >= 0 for each class")
    if samples.labels is not None:
        if (largest := int(samples.labels.max())) >= len(weights):
            raise MeasureError(
                f"label {largest} has no weight: there are {len(weights)} class_weights"
            )
        mean = weights[samples.labels].mean()
    elif samples.targets is None:
        raise MeasureError("class_weights weigh samples by their classes; pass targets")
    else:
        rows = samples.targets.double()
        rows = rows.unflatten(1, (-1, classes)).flatten(0, 1) if classes else rows
        if rows.ndim != 2 or rows.shape[1] != len(weights):
            raise MeasureError(
                f"there are {len(weights)} class_weights for targets {tuple(rows.shape)}"
            )
        mean = (rows[~rows.isnan().any(1)] @ weights).mean()
    if not float(mean) > 0:
        raise MeasureError("class_weights are 0 for the classes of all samples")
    return _weighted.Loss(loss, weights, float(mean))


def _of_function(loss: Function, ready: Prepared) -> tuple[Loss, Samples]:
    samples, targets = ready.samples, ready.given
    if targets is None:
        raise MeasureError("a loss that is a function needs targets")
    integers = not targets.is_floating_point()
    several = ready.parts is not None
    if samples.kept is not None and not integers and not several:
        raise MeasureError(
            "a loss that is a function takes masks as classes that are ignored, and targets are "
            "values; name a loss"
        )
    counts = None if samples.kept is None or several else samples.kept.sum(1).double()
    few = torch.arange(min(4, len(targets)), device=targets.device)
    if counts is not None:  # samples that differ in it come first
        few = (counts - counts.mean()).abs().argsort(descending=True)[:4]
    total, values = _tried(loss, ready, targets, few)
    mean, together = sum(values) / len(values), sum(values)
    kinds: dict[str, tuple[float, bool, Any]] = {
        "the mean": (mean, False, None),
        "the sum": (together, True, None),
    }
    if counts is not None:
        share = (counts[few] / counts[few].sum()).tolist()
        by_position = sum(part * value for part, value in zip(share, values, strict=True))
        kinds["the mean over positions"] = (by_position, False, _counts(ready, counts.mean()))
    for value, summed, counted in kinds.values():
        if abs(total - value) <= 1e-4 * max(abs(value), 1e-6):
            function = _function.Loss(
                loss,
                integers,
                summed,
                ready.outputs.natural,
                counted,
                ready.outputs.classes,
                _restored(ready),
            )
            if several:
                return function, replace(samples, packed=targets)
            return function, replace(samples, targets=targets)
    raise MeasureError(
        "the loss of a batch is neither the mean nor the sum of those of its samples: "
        f"{total:.6g} for {mean:.6g} or {together:.6g}; class weights are class_weights= of "
        "loss='cross-entropy'"
    )


def _tried(
    loss: Function, ready: Prepared, targets: Tensor, few: Tensor
) -> tuple[float, list[float]]:
    """The value of a function on a few samples together, and on each alone."""
    restored = _restored(ready)

    def loss_of_packed(outputs: Tensor, packed: Tensor) -> Tensor:
        return loss(outputs, restored(packed))

    with preserving_state(ready.model), torch.no_grad():
        flat, some = ready.model(ready.samples.inputs[few].clone()), targets[few]
        try:
            outputs = ready.outputs.natural(flat)
            whole = loss_of_packed(outputs, some)
            others = loss_of_packed(ready.outputs.natural(_otherwise(flat, ready, few)), some)
            pairs = zip(outputs.split(1), some.split(1), strict=True)
            values = [loss_of_packed(f, y) for f, y in pairs]
        except Exception as error:  # whatever the user's function raises
            raise MeasureError(f"the loss raises {type(error).__name__}: {error}") from error
    if not all(isinstance(part, Tensor) and part.numel() == 1 for part in (whole, *values)):
        raise MeasureError("the loss must return one number for a batch of outputs and targets")
    if not torch.allclose(whole, others, rtol=1e-5):
        raise MeasureError(
            "the loss depends on outputs at positions with ignored labels, which do not count; "
            "where it shifts labels itself, shift them before, and take a loss that does not"
        )
    return float(whole), [float(value) for value in values]


def _restored(ready: Prepared) -> Callable[[Tensor], Any]:
    """Several targets as they were given, from those side by side; one target as it is."""
    layout = ready.parts
    if layout is None:
        return lambda targets: targets

    def restored(packed: Tensor) -> Any:
        by_place, by_name = layout.unpacked(packed)
        return by_name or by_place

    return restored


def _otherwise(flat: Tensor, ready: Prepared, few: Tensor) -> Tensor:
    """Outputs (samples, N) with other numbers at positions that do not count, where they are 0."""
    kept = ready.samples.kept
    if kept is None:
        return flat
    by_position = flat.unflatten(1, (kept.shape[1], -1))
    others = torch.arange(by_position[0].numel()).view_as(by_position[0]).to(flat).cos()
    return torch.where(kept[few][..., None], by_position, others).flatten(1)


def _counts(ready: Prepared, mean: Tensor) -> Callable[[Tensor], Tensor]:
    """How many positions of each sample count, by their targets, relative to the mean."""
    return lambda targets: (targets != ready.ignore_index).flatten(1).sum(1) / mean
