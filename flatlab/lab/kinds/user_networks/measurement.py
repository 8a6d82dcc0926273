"""How networks from elsewhere are measured, and their losses and errors on whole sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from msgspec.structs import replace
from torch import nn

from flatlab.data._tensors import EVALUATED
from flatlab.inputs.arguments import Arguments
from flatlab.inputs.loss_forms import Function
from flatlab.inputs.losses import with_options
from flatlab.inputs.prepare import made_ready
from flatlab.lab.kinds.user_networks.samples import Part
from flatlab.losses._base import Loss


@dataclass(frozen=True)
class Measurement:
    """How networks from elsewhere are measured.

    model: `module:function`, which builds a network from those hyper-parameters that it takes.
    data: a file of arrays, a folder of images, a data set's key, or `module:function`.
    arguments: those of `flatlab.measure`; so many training samples are drawn, by the seed.
    families: of quantities, or ("all",).
    loss: of their training; None: cross-entropy for classes, half-mse for numbers.
    scaling: of images as published; arrays are taken as they are.
    resize: pixels to which images of a folder are resized and cut; None: as they are.
    device: "cpu" or "cuda".
    options: of families and of the loss.
    performance: whether losses and errors on whole training and test sets are measured.
    study: the key of the one whose modules are named; "": they are in the working folder.
    """

    model: str
    data: str
    arguments: Arguments
    families: Sequence[str] = ("geometry",)
    loss: str | None = None
    scaling: str = "unit"
    resize: int | None = None
    device: str = "cpu"
    options: tuple[tuple[str, Any], ...] = ()
    performance: bool = True
    study: str = ""


def performance(
    network: nn.Module, parts: Mapping[str, Part], how: Measurement, about: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Losses and errors on whole training and test sets."""
    described: dict[str, Any] = about["described"]
    loss = with_options(about["loss"], dict(how.options))
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
def _on_part(
    network: nn.Module, part: Part, given: Loss | Function, how: Measurement
) -> dict[str, float]:
    """The loss of a network on all samples; of classes also accuracy and error in %.

    Of sequences and maps they are those of positions.
    """
    arguments = replace(how.arguments, samples=None)
    ready = made_ready(network, part.inputs, part.targets, given, arguments)
    samples, loss, targets = ready.samples, ready.loss, ready.targets
    labels = samples.labels if samples.position_labels is None else samples.position_labels
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
