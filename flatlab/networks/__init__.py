"""Architectures: one file each, whose stem is the value of `network.name`.

Each file has

    MODE        a literal: how the training engine advances many such networks (`flatlab.train`);
                those whose options say that they are `narrow` are `batched`
    Options     a subclass of `flatlab.plan.options.Architecture`: what a grid may set in `network`
    build       `build(inputs, outputs, options)`, which returns the torch module

Planning reads the first two from the syntax of the file, without importing it.
"""

import copy
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.plan import convert, module_of
from flatlab.plan.registry import imported


class Gaussian(nn.Module):
    """exp(-x^2 / (2 s^2)); the width s is an assumption, macdonald2023 gives none."""

    width = 0.05

    def forward(self, x: Tensor) -> Tensor:
        return torch.exp(-x.square() / (2 * self.width**2))


ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gaussian": Gaussian}
"""By the value of the option `activation`; each has a stacked form in `flatlab/train/layers`."""


class Residual(nn.Module):
    """y = body(x) + shortcut(x); an empty shortcut is the identity."""

    def __init__(self, body: nn.Sequential, shortcut: nn.Sequential) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + self.shortcut(x)


class ZeroConv2d(nn.Conv2d):
    """A convolution whose weights start at zero under every initialization."""


def build(network: Mapping[str, Any], inputs: tuple[int, ...], outputs: int) -> nn.Module:
    """A network that maps (batch, *inputs) to (batch, outputs).

    network: `name` and `options`, as in the settings of a job. Weights are drawn from the global
    generator; `flatlab.train.initializations` replaces them. Raises `ValueError` with the reason.
    """
    return _file(network).build(inputs, outputs, options_of(network))


def options_of(network: Mapping[str, Any]) -> Any:
    """The options of a network with their defaults: an instance of its architecture's `Options`."""
    return convert(network.get("options", {}), _file(network).Options, "options.")


def _file(network: Mapping[str, Any]) -> ModuleType:
    return imported("networks", network["name"])


def seeded(
    network: Mapping[str, Any], inputs: tuple[int, ...], outputs: int, seed: int
) -> nn.Module:
    """`build` with weights drawn from a seed; the global generator is left as it was."""
    with drawing_from(seed):
        return build(network, inputs, outputs)


@contextmanager
def drawing_from(seed: int) -> Iterator[None]:
    """Seed the global generator of the CPU, and leave it as it was.

    Those of GPUs stay as they are: to save their states would start CUDA on every visible GPU.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def convolutional(inputs: tuple[int, ...], outputs: int, options: Any) -> nn.Sequential:
    """Layers conv1, (norm1,) act1, ..., pool1, ..., flatten, fc1, fcact1, fc2, ...

    inputs: (channels, height, width).  options: a `flatlab.plan.options.Convolutional`. Raises
    `ValueError` if the inputs do not fit.
    """
    activation = ACTIVATIONS[options.activation]
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    channels, convolutions, pools = inputs[0], 0, 0
    for width in options.widths:
        if width == "pool":
            pools += 1
            layers[f"pool{pools}"] = nn.MaxPool2d(2)
            continue
        convolutions += 1
        layers[f"conv{convolutions}"] = nn.Conv2d(
            channels, width, options.kernel, padding=options.padding
        )
        if options.normalization == "batch":
            layers[f"norm{convolutions}"] = nn.BatchNorm2d(width)
        layers[f"act{convolutions}"] = activation()
        channels = width
    layers["flatten"] = nn.Flatten()
    sizes = [_feature_size(layers, inputs), *options.hidden, outputs]
    for number, size in enumerate(pairwise(sizes), start=1):
        layers[f"fc{number}"] = nn.Linear(*size)
        if number < len(sizes) - 1:
            layers[f"fcact{number}"] = activation()
    return nn.Sequential(layers)


def _feature_size(layers: Mapping[str, nn.Module], inputs: tuple[int, ...]) -> int:
    stack = copy.deepcopy(nn.Sequential(*layers.values())).eval()
    with torch.no_grad():
        try:
            return stack(torch.zeros(1, *inputs)).numel()
        except (RuntimeError, IndexError) as error:
            raise ValueError(f"inputs of shape {inputs} do not fit the network: {error}") from None
