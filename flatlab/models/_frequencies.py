"""Initializations from which a network fits points smoothly or not: macdonald2023, App. C.3.

The paper starts a Gaussian network from "a wide Gaussian distribution", which makes it smooth, and
a ReLU network from a fit of sin(6 pi x), which makes it rough. Adam and its rate are the paper's;
the other numbers are assumptions.
"""

from __future__ import annotations

import math

import torch
from torch import nn

NARROW = 0.035
"""Deviation of the first layer's weights: 256 of them have the norm 0.56 that table 1 prints."""

POINTS, RATE, STEPS = 256, 1e-4, 10_000


def narrow_first_layer(model: nn.Module) -> None:
    """Draw the weights of the first linear layer from N(0, 0.035^2): low frequencies alone."""
    nn.init.normal_(_first_layer(model).weight, std=NARROW)


def fit_sine(model: nn.Module) -> None:
    """Fit a network from the line to the line to sin(6 pi x): high frequencies.

    10,000 steps of Adam with rate 1e-4 on the mean squared error at 256 equally spaced points of
    [-1, 1]. Nothing is drawn: what comes out depends on the weights that go in.
    """
    first = _first_layer(model)
    if first.in_features != 1:
        raise ValueError(
            f"high-frequency is for networks of one input, this has {first.in_features}"
        )
    x = torch.linspace(-1, 1, POINTS, dtype=first.weight.dtype)[:, None]
    y = torch.sin(6 * math.pi * x)
    update = torch.optim.Adam(model.parameters(), lr=RATE, fused=True)
    for _ in range(STEPS):
        update.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        update.step()
    update.zero_grad()


def _first_layer(model: nn.Module) -> nn.Linear:
    return next(module for module in model.modules() if isinstance(module, nn.Linear))
