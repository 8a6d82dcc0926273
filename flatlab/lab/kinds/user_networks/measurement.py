"""How networks from elsewhere are measured, and their losses and errors on whole sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from flatlab.data._tensors import EVALUATED
from flatlab.inputs.losses import loss_for
from flatlab.inputs.prepare import prepared
from flatlab.lab.kinds.user_networks.samples import Part
from flatlab.losses._base import Loss, loss_of

PASSED_ON = (
    *("output", "parameters", "ignore_index", "class_weights"),
    *("batch_size", "dtype", "memory", "seed"),
)
"""Fields of `Measurement` that are arguments of `measure`."""


@dataclass(frozen=True)
class Measurement:
    """How networks from elsewhere are measured.

    model: `module:function`, which builds a network from those hyper-parameters that it takes.
    data: a file of arrays, a folder of images, a data set's key, or `module:function`.
    families: of quantities, or ("all",).
    loss: of their training; None: cross-entropy for classes, half-mse for numbers.
    samples: how many training samples the families are measured on; None: all.
    seed: that draws the samples, and the numbers of families that draw some.
    scaling: of images as published; arrays are taken as they are.
    resize: pixels to which images of a folder are resized and cut; None: as they are.
    output: which output is meant, of a network that returns several; None: `logits`, or the only
        one.
    parameters: names or patterns of those that are theta; None: all.
    ignore_index: the class of samples, or positions, that do not count.
    class_weights: of the cross-entropy, one for each class; None: none.
    batch_size: samples at a time; None: what fits.
    dtype: of the arithmetic; None: that of the weights.
    memory: bytes that derivatives may take; None: a quarter of what is free.
    device: "cpu" or "cuda".
    options: of families and of the loss.
    performance: whether losses and errors on whole training and test sets are measured.
    study: the key of the one whose modules are named; "": they are in the working folder.
    """

    model: str
    data: str
    families: Sequence[str] = ("geometry",)
    loss: str | None = None
    samples: int | None = 100
    seed: int = 0
    scaling: str = "unit"
    resize: int | None = None
    output: str | int | None = None
    parameters: Sequence[str] | None = None
    ignore_index: int = -100
    class_weights: Sequence[float] | None = None
    batch_size: int | None = None
    dtype: str | None = None
    memory: int | None = None
    device: str = "cpu"
    options: tuple[tuple[str, Any], ...] = ()
    performance: bool = True
    study: str = ""


def performance(
    network: nn.Module, parts: Mapping[str, Part], how: Measurement, about: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Losses and errors on whole training and test sets."""
    described: dict[str, Any] = about["described"]
    loss = loss_of({**dict(how.options), "loss": about["loss"]})
    values: dict[str, float] = {}
    for name, part in parts.items():
        if part.targets is None:
            continue
        evaluated = _on_part(network, part, loss, how)
        values |= {f"{name}_{kind}": value for kind, value in evaluated.items()}
        for kind in evaluated:
            words = f"mean {about['loss']} of" if kind == "loss" else f"{kind} on"
            units = "" if kind == "loss" else "%"
            long_name = f"{words} all {name} samples"
            described[f"{name}_{kind}"] = {"long_name": long_name, "units": units}
    for kind, units in (("error", "%"), ("loss", "")):
        if f"test_{kind}" in values and f"train_{kind}" in values:
            values[f"{kind}_gap"] = values[f"test_{kind}"] - values[f"train_{kind}"]
            long_name = f"test {kind} - training {kind}"
            described[f"{kind}_gap"] = {"long_name": long_name, "units": units}
    for each in described.values():
        each.setdefault("dims", [])
    return {name: np.array(value) for name, value in values.items()}


@torch.no_grad()
def _on_part(network: nn.Module, part: Part, loss: Loss, how: Measurement) -> dict[str, float]:
    """The loss of a network on all samples; of classes also accuracy and error in %.

    Of sequences and maps they are those of positions.
    """
    chosen = {name: getattr(how, name) for name in ("dtype", "output", "ignore_index")}
    ready = prepared(network, part.inputs, part.targets, limit=None, tokens=True, **chosen)
    loss, samples = loss_for(loss, ready, how.class_weights)
    labels = samples.labels if samples.position_labels is None else samples.position_labels
    targets = samples.targets_for(torch.Size(ready.outputs.shape).numel(), loss)
    total, right, counted = 0.0, 0, 0
    size = EVALUATED[samples.inputs.device.type]
    for rows in torch.arange(len(samples.inputs)).split(size):
        outputs = ready.model(samples.inputs[rows].clone())
        total += float(loss.values(outputs, targets[rows].to(outputs)).sum())
        if labels is not None:
            scores = outputs.unflatten(1, (-1, ready.outputs.classes or outputs.shape[1]))
            wanted = labels[rows].view(len(rows), -1)
            right += int((scores.argmax(2) == wanted).sum())
            counted += int((wanted >= 0).sum())
    values = {"loss": total / (1 if loss.summed else len(samples.inputs))}
    if counted:
        values |= {"accuracy": 100 * right / counted, "error": 100 - 100 * right / counted}
    return values
