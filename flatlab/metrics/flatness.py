"""Relative flatness of a network whose features have standard deviation 1: petzka2021, Theorem 4.

The features of a layer (its inputs) are divided by their standard deviation over the samples, and
the columns of its weight are multiplied by it. The function stays the same, and the result does not
change when neurons are rescaled. (With the variance that the theorem prints, it does.) A feature
that is constant on the samples has no deviation: its contribution moves into the bias, and its
column is left out.
"""

import copy
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from flatlab.metrics import Measured, MeasureError, Quantity, Samples, Settings, geometry
from flatlab.plan.schema import Key, Strict, means

LAYER = ("layer",)
QUANTITIES = {
    "normalized_relative_flatness": Quantity(
        "kappa_Tr of a layer whose features have standard deviation 1; large means sharp",
        "output^2, or loss",
        "petzka2021 Thm. 4, corrected",
        LAYER,
    ),
    "features": Quantity("number of inputs of the layer", "1", "", LAYER),
    "features_constant": Quantity(
        "number of inputs that are constant on the samples", "1", "", LAYER
    ),
}


class Options(Strict, frozen=True):
    FOLDERS: ClassVar[dict[str, str]] = {"relative_flatness_loss": "losses"}

    relative_flatness_loss: Annotated[
        Key | None, means("whose Hessian it uses; null: the loss of training")
    ] = None


CONSTANT = 1e-12
"""A feature counts as constant if its deviation is at most this share of its largest value."""


class Divided(nn.Module):
    """x / deviation; 0 where the deviation is infinite."""

    def __init__(self, deviation: Tensor) -> None:
        super().__init__()
        self.deviation = deviation

    def forward(self, x: Tensor) -> Tensor:
        return x / self.deviation


def measure(model: nn.Module, samples: Samples, settings: Settings) -> Measured:
    """Relative flatness of each linear layer that is used once, on one vector per sample.

    The family `geometry` measures the rescaled network.
    """
    seen = _features(model, samples.inputs)
    rescaled = nn.Sequential(copy.deepcopy(model))
    counts = {}
    for name, features in seen.items():
        counts[name] = _normalize(rescaled, f"0.{name}" if name else "0", features)
    loss = settings.options.relative_flatness_loss
    chosen = geometry.Options(relative_flatness_loss=loss, costly=())
    found = geometry.measure(rescaled, samples, replace(settings, options=chosen))
    if "layer" not in found.coordinates:
        raise MeasureError("relative flatness needs a linear layer that is called as a module")
    flatness = dict(zip(found.coordinates["layer"], found.values["relative_flatness"], strict=True))
    places = {name: ".".join(filter(None, ["0", name, "1"])) for name in seen}
    names = [name for name, place in places.items() if place in flatness]
    values = {
        "normalized_relative_flatness": [flatness[places[name]] for name in names],
        "features": [seen[name].shape[1] for name in names],
        "features_constant": [counts[name] for name in names],
    }
    return Measured(values, {"layer": names})


@torch.no_grad()
def _features(model: nn.Module, inputs: Tensor) -> dict[str, Tensor]:
    """The features (samples, features) of each linear layer, in the order of use."""
    found: dict[str, list[Tensor]] = {}

    def keep(name: str) -> Any:
        return lambda module, given: found.setdefault(name, []).append(given[0].detach().clone())

    handles = [
        module.register_forward_pre_hook(keep(name))
        for name, module in model.named_modules()
        if type(module).forward is nn.Linear.forward
    ]
    try:
        model(inputs)
    finally:
        for handle in handles:
            handle.remove()
    once = {name: xs[0] for name, xs in found.items() if len(xs) == 1}
    return {name: x for name, x in once.items() if x.ndim == 2 and len(x) == len(inputs)}


@torch.no_grad()
def _normalize(model: nn.Module, name: str, features: Tensor) -> int:
    """Rescale a layer in place; returns the number of its constant features."""
    layer = model.get_submodule(name)
    assert isinstance(layer, nn.Linear)
    deviation = features.std(0, correction=0)
    constant = deviation <= CONSTANT * features.abs().amax(0)
    rest = layer.weight[:, constant] @ features[0, constant]
    layer.bias = nn.Parameter(rest if layer.bias is None else layer.bias + rest)
    layer.weight.mul_(deviation.masked_fill(constant, 0.0))
    divided = Divided(deviation.masked_fill(constant, torch.inf))
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, nn.Sequential(divided, layer))
    return int(constant.sum())
