"""Architectures: one file each with `build(inputs, outputs, activation) -> torch.nn.Sequential`.

Each has two literals beside it, which planning reads: `MODE`, how the training engine advances many
of them (see `flatlab.train`), and `PARAMETERS`, about how many it has, to foretell disk use.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.networks._frequencies import SineFit, narrow_first_layer
from flatlab.plan import module_of


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


NORMAL = ("he-normal", "xavier-normal")


class Residual(nn.Module):
    """y = body(x) + shortcut(x); an empty shortcut is the identity."""

    def __init__(self, body: nn.Sequential, shortcut: nn.Sequential) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + self.shortcut(x)


class ZeroConv2d(nn.Conv2d):
    """A convolution that starts at zero, whichever the initialization of the network."""


def build(network: Mapping[str, Any], inputs: tuple[int, ...], outputs: int) -> nn.Sequential:
    """A network that maps (batch, *inputs) to (batch, outputs).

    network: the `network` section of a grid. The weights are the framework's, from its global
    generator; `initialize` gives them a seed.
    """
    module = importlib.import_module(module_of("networks", network["name"]))
    return module.build(inputs, outputs, ACTIVATIONS[network["activation"]])


def feature_size(layers: Mapping[str, nn.Module], inputs: tuple[int, ...]) -> int:
    """How many numbers a stack of layers makes of one input; `ValueError` where it does not fit."""
    stack = copy.deepcopy(nn.Sequential(*layers.values())).eval()
    with torch.no_grad():
        try:
            return stack(torch.zeros(1, *inputs)).numel()
        except (RuntimeError, IndexError) as error:
            raise ValueError(f"inputs of shape {inputs} do not fit the network: {error}") from None


def initialize(model: nn.Module, scheme: str, seed: int, steps: int = 10_000) -> None:
    """Draw the weights of a model from `seed`.

    framework: the default of each module, uniform within 1/sqrt(fan-in), biases too.
    he-normal: N(0, 2/fan-out); xavier-normal: N(0, 2/(fan-in + fan-out)); biases 0.
    low-frequency: framework, and a narrow first layer.  high-frequency: framework, and then a fit
    of so many `steps`.  The global generator is left as it was.
    """
    draw(model, scheme, seed)
    if fit := fit_of(model, scheme, steps):
        while fit.left:
            fit.step()


def fit_of(model: nn.Module, scheme: str, steps: int) -> SineFit | None:
    """What a scheme does with the weights that `draw` left, step by step; None if nothing."""
    return SineFit(model, steps) if scheme == "high-frequency" else None


def draw(model: nn.Module, scheme: str, seed: int) -> None:
    """The part of `initialize` that depends on the seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for module in model.modules():
            if reset := getattr(module, "reset_parameters", None):
                reset()
            weight = getattr(module, "weight", None)
            if isinstance(module, ZeroConv2d):
                for parameter in module.parameters():
                    nn.init.zeros_(parameter)
                continue
            if scheme not in NORMAL or not isinstance(weight, nn.Parameter) or weight.ndim < 2:
                continue
            if scheme == "he-normal":
                nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu")
            else:
                nn.init.xavier_normal_(weight)
            if isinstance(bias := getattr(module, "bias", None), nn.Parameter):
                nn.init.zeros_(bias)
        if scheme == "low-frequency":
            narrow_first_layer(model)
