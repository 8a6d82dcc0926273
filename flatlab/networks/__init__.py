"""Architectures: one file each with `build(inputs, outputs, activation, **options)`.

Each has literals beside it, which planning reads:

    MODE         how the training engine advances many of them (see `flatlab.train`)
    LAYERS       the files of `flatlab/train/layers` that its stacked form needs, by key; that of
                 the activation has the activation's name, and is added where `build` takes one
    OPTION_LAYERS  those that an option adds where it is neither false nor empty, by its name; may
                 be left out
    PARAMETERS   about how many it has, to foretell disk use
    OPTIONS      what `network.options` of a grid may say: names and meanings, or "any"; may be left
                 out where there are none
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.plan import module_of
from flatlab.plan.registry import takes_activation


class Gaussian(nn.Module):
    """exp(-x^2 / (2 s^2)); the width s is an assumption, macdonald2023 gives none."""

    width = 0.05

    def forward(self, x: Tensor) -> Tensor:
        return torch.exp(-x.square() / (2 * self.width**2))


ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "gaussian": Gaussian,
}


class Residual(nn.Module):
    """y = body(x) + shortcut(x); an empty shortcut is the identity."""

    def __init__(self, body: nn.Sequential, shortcut: nn.Sequential) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + self.shortcut(x)


class ZeroConv2d(nn.Conv2d):
    """A convolution that starts at zero, whichever the initialization of the network."""


def build(network: Mapping[str, Any], inputs: tuple[int, ...], outputs: int) -> nn.Module:
    """A network that maps (batch, *inputs) to (batch, outputs).

    network: the `network` section of a grid. What is drawn on the way comes from the global
    generator; `flatlab.train.initializations` gives the weights. `ValueError` where it cannot be.
    """
    name = network["name"]
    module = importlib.import_module(module_of("networks", name))
    options = dict(network.get("options", {}))
    if takes_activation(name):
        options["activation"] = ACTIVATIONS[network["activation"]]
    return module.build(inputs, outputs, **options)


def seeded(
    network: Mapping[str, Any], inputs: tuple[int, ...], outputs: int, seed: int
) -> nn.Module:
    """The same, drawn from a seed; the global generator is left as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build(network, inputs, outputs)


def feature_size(layers: Mapping[str, nn.Module], inputs: tuple[int, ...]) -> int:
    """How many numbers a stack of layers makes of one input; `ValueError` where it does not fit."""
    stack = copy.deepcopy(nn.Sequential(*layers.values())).eval()
    with torch.no_grad():
        try:
            return stack(torch.zeros(1, *inputs)).numel()
        except (RuntimeError, IndexError) as error:
            raise ValueError(f"inputs of shape {inputs} do not fit the network: {error}") from None
