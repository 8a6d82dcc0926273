"""Convert a user's inputs and targets to the samples that families take."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from flatlab.core.errors import MeasureError
from flatlab.inputs.batches import tensor_of
from flatlab.measuring.quantity import Samples


def samples_of(
    inputs: Tensor | np.ndarray,
    targets: Tensor | np.ndarray | Sequence[int] | None,
    weight: Tensor,
    tokens: bool,
    ignore_index: int,
    classes: int = 0,
    packed: bool = False,
) -> Samples:
    """The sample set of a measurement, in the precision and on the device of a network.

    inputs: (samples, ...).
    targets: classes (samples,), or values (samples, N).
    weight: a parameter of the network.
    tokens: whether inputs may be integers.
    ignore_index: the class of samples, or of positions, that are left out.
    classes: outputs for each position, where samples have positions; targets are classes (samples,
        ...) then, or values of every output of every position.
    packed: whether several targets lie side by side.

    Raises `MeasureError` for what no family takes.
    """
    inputs = _inputs(inputs, weight, tokens)
    if targets is None:
        return Samples(inputs)
    targets = tensor_of(targets, "targets").to(inputs.device)
    if targets.ndim < 1 or len(targets) != len(inputs):
        count = len(targets) if targets.ndim else "one number for"
        raise MeasureError(f"there are {len(inputs)} inputs and {count} targets")
    if targets.is_complex() or not bool(targets.isfinite().all()):
        raise MeasureError("targets are not all finite real numbers")
    if packed:
        return Samples(inputs, packed=targets.to(weight))
    if classes:
        return Samples(inputs, _of_positions(targets, classes, ignore_index, weight))
    if targets.is_floating_point():
        return Samples(inputs, targets.to(weight))
    labels = targets.long()
    if targets.ndim == 1:
        return _with_labels(inputs, labels, ignore_index)
    one_hot = targets.ndim == 2 and targets.shape[1] > 1 and bool((labels >= 0).all())
    if one_hot and bool((labels.sum(1) == 1).all()):
        return Samples(inputs, targets.to(weight), labels.argmax(1))
    return Samples(inputs, targets.to(weight))


def _with_labels(inputs: Tensor, labels: Tensor, ignore_index: int) -> Samples:
    kept = labels != ignore_index
    if not bool(kept.any()):
        raise MeasureError(f"all labels are {ignore_index}, the class that is left out")
    if not bool(kept.all()):
        inputs, labels = inputs[kept], labels[kept]
    if (least := int(labels.min())) < 0:
        raise MeasureError(
            f"label {least}: classes are counted from 0; ignore_index={least} leaves it out"
        )
    return Samples(inputs, None, labels)


def _of_positions(targets: Tensor, classes: int, ignore_index: int, weight: Tensor) -> Tensor:
    """Targets (samples, positions * classes), the classes of a position side by side.

    They are NaN where the label is `ignore_index`.
    """
    if targets.ndim < 2:
        raise MeasureError(
            "targets are (samples,), and the network has outputs at several positions of each "
            "sample; pass a class for each position"
        )
    if targets.is_floating_point():
        maps = targets.ndim > 3 and targets.shape[1] == classes
        return (targets.movedim(1, -1) if maps else targets).flatten(1).to(weight)
    labels = targets.long().flatten(1)
    ignored = labels == ignore_index
    if bool(ignored.all()):
        raise MeasureError(f"all labels are {ignore_index}, the class that is left out")
    known = labels[~ignored]
    if int(known.min()) < 0 or int(known.max()) >= classes:
        worst = int(known.min()) if int(known.min()) < 0 else int(known.max())
        raise MeasureError(
            f"label {worst} is out of range: there are {classes} outputs for each position "
            f"(labels 0 to {classes - 1})"
        )
    wanted = one_hot(labels.masked_fill(ignored, 0), classes).to(weight)
    return wanted.masked_fill(ignored[..., None], torch.nan).flatten(1)


def _inputs(inputs: Any, weight: Tensor, tokens: bool) -> Tensor:
    inputs = tensor_of(inputs, "inputs")
    if not len(inputs):
        raise MeasureError("there are no samples")
    if inputs.is_complex():
        raise MeasureError(
            f"inputs are {inputs.dtype}; pass their real and imaginary parts as numbers"
        )
    if not inputs.is_floating_point() and not tokens:
        raise MeasureError(
            f"inputs are {inputs.dtype}: derivatives with respect to them need real numbers; "
            "for tokens measure the part of the network behind the embedding"
        )
    return inputs.to(weight if inputs.is_floating_point() else weight.device)
