"""Modules that several architectures are built of."""

import torch
from torch import Tensor, nn


class Gaussian(nn.Module):
    """exp(-x^2 / (2 s^2)); the width s is an assumption, macdonald2023 gives none."""

    width = 0.05

    def forward(self, x: Tensor) -> Tensor:
        return torch.exp(-x.square() / (2 * self.width**2))


ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gaussian": Gaussian}
"""By the value of the option `activation`; each has a stacked form in `lab/train/layers`."""


class Residual(nn.Module):
    """y = body(x) + shortcut(x); an empty shortcut is the identity."""

    def __init__(self, body: nn.Sequential, shortcut: nn.Sequential) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + self.shortcut(x)


class ZeroConv2d(nn.Conv2d):
    """A convolution whose weights start at zero under every initialization."""
