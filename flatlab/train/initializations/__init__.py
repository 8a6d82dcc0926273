"""Initializations: one file each, whose stem is the value of `network.initialization`.

Each file has `draw(model)`, which draws the weights from torch's global generator; the generator is
seeded by the run, and the network was built with the same seed. An initialization that then fits
the weights to something also has `fit(model, steps)`, which returns a `Fit`.
"""

import importlib
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from flatlab.networks import ZeroConv2d
from flatlab.plan import module_of


class Fit(Protocol):
    """A fit of initial weights, step by step. It is saved and resumed by its tensors."""

    left: Tensor
    """The number of steps that remain."""

    def step(self) -> None: ...

    def tensors(self) -> dict[str, Tensor]:
        """Everything that the remaining steps depend on, by name; the fit works on these."""


def initialize(model: nn.Module, scheme: str, seed: int, steps: int = 10_000) -> None:
    """Give a network the weights of an initialization, including its fit.

    steps: of the fit. The global generator is left as it was.
    """
    draw(model, scheme, seed)
    if fit := fit_of(model, scheme, steps):
        while fit.left:
            fit.step()


def draw(model: nn.Module, scheme: str, seed: int) -> None:
    """The part of `initialize` that depends on the seed."""
    rule = importlib.import_module(module_of("train/initializations", scheme))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        rule.draw(model)


def fit_of(model: nn.Module, scheme: str, steps: int) -> Fit | None:
    """The fit that follows `draw`, or None if the initialization has none."""
    rule = importlib.import_module(module_of("train/initializations", scheme))
    return rule.fit(model, steps) if hasattr(rule, "fit") else None


def reset(model: nn.Module, weights: Callable[[Tensor], object] | None = None) -> None:
    """Draw the weights of each module as the framework does, then its matrices by `weights`.

    With `weights` the biases start at 0. A `ZeroConv2d` starts at zero.
    """
    for module in model.modules():
        if again := getattr(module, "reset_parameters", None):
            again()
        if isinstance(module, ZeroConv2d):
            for parameter in module.parameters():
                nn.init.zeros_(parameter)
            continue
        weight = getattr(module, "weight", None)
        if weights is None or not isinstance(weight, nn.Parameter) or weight.ndim < 2:
            continue
        weights(weight)
        if isinstance(bias := getattr(module, "bias", None), nn.Parameter):
            nn.init.zeros_(bias)
