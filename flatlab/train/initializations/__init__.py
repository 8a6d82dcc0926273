"""Initializations: one file each, whose stem is the value of `network.initialization`.

Each file has `draw(model)`, which draws the weights from torch's global generator; it is called
with this generator seeded by the run, on a network that was built with the same seed. One that also
fits the weights to something has `fit(model, steps)`, which returns the fit on its way:

    left        how many steps it still has to take
    step()      take one
    state()     all that the steps to come depend on, tensors by name
    go_on(s)    be where that state was taken
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor, nn

from flatlab.networks import ZeroConv2d
from flatlab.plan import module_of


class Fit(Protocol):
    """What an initialization does with the weights that it has drawn, step by step."""

    left: int

    def step(self) -> None: ...

    def state(self) -> dict[str, Tensor]: ...

    def go_on(self, state: Mapping[str, Tensor]) -> None: ...


def initialize(model: nn.Module, scheme: str, seed: int, steps: int = 10_000) -> None:
    """Give a network the weights of an initialization, all of its steps included.

    steps: of one that fits. The global generator is left as it was.
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
    """What an initialization does with the weights that `draw` left; None where it does nothing."""
    rule = importlib.import_module(module_of("train/initializations", scheme))
    return rule.fit(model, steps) if hasattr(rule, "fit") else None


def reset(model: nn.Module, weights: Callable[[Tensor], object] | None = None) -> None:
    """Draw each module's weights as the framework does; then its weight matrices by `weights`.

    Where `weights` are drawn, the biases beside them start at 0. A `ZeroConv2d` starts at zero.
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
