"""Networks from their settings."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch import nn

from flatlab.core.registry import imported
from flatlab.core.schema import convert


def build(network: Mapping[str, Any], inputs: tuple[int, ...], outputs: int) -> nn.Module:
    """A network that maps (batch, *inputs) to (batch, outputs).

    network: `name` and `options`, as in the settings of a job.
    inputs: the shape of one input.
    outputs: their number.

    Weights are drawn from the global generator; `flatlab.lab.train.initializations` replaces them.
    Raises `ValueError` with the reason.
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
