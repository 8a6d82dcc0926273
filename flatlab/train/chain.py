"""Layers of several networks at once, with their gradients written out.

The weights of a layer are stacked over the runs, (runs, ...), and one kernel serves them all. The
gradients are written out: for networks this small autograd takes longer than the arithmetic, and a
step that is a plain sequence of kernels can be recorded as a CUDA graph.

Vectors are (runs, batch, features). Images are (batch, runs * channels, height, width): one grouped
convolution computes those of all runs, and what acts on channels one by one (batch norm, pooling)
is the framework's own layer. `Fold` and `Unfold` lead from one form to the other.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

aten = torch.ops.aten
"""The kernels that autograd itself calls."""


class Layer(Protocol):
    """A layer of all runs.

    forward returns the output and what `backward` needs; backward returns the gradient with respect
    to the input (None unless `wanted`) and those of `parameters`, in their order.
    """

    parameters: list[Tensor]

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]: ...

    def backward(
        self, saved: Any, gradient: Tensor, wanted: bool
    ) -> tuple[Tensor | None, list[Tensor]]: ...


class Chain:
    """Layers one after the other."""

    def __init__(self, layers: list[Layer]) -> None:
        self.layers = layers
        self.parameters = [tensor for layer in layers for tensor in layer.parameters]

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        tape = []
        for layer in self.layers:
            x, saved = layer.forward(x, training)
            tape.append(saved)
        return x, tape

    def backward(
        self, saved: Any, gradient: Tensor, wanted: bool
    ) -> tuple[Tensor | None, list[Tensor]]:
        # Nothing is propagated below the first layer with parameters unless the input asks for it.
        trained = [number for number, layer in enumerate(self.layers) if layer.parameters]
        last = 0 if wanted else min(trained, default=len(self.layers))
        result: list[Tensor] = []
        flowing: Tensor | None = gradient
        for number in range(len(self.layers) - 1, last - 1, -1):
            assert flowing is not None
            flowing, gradients = self.layers[number].backward(
                saved[number], flowing, wanted or number > last
            )
            result[:0] = gradients
        return flowing if wanted else None, result


class WithoutParameters:
    """What layers without parameters have in common."""

    parameters: list[Tensor] = []  # noqa: RUF012 - nobody adds to it

    def through(self, saved: Any, gradient: Tensor) -> Tensor:
        """The gradient with respect to the input."""
        raise NotImplementedError

    def backward(
        self, saved: Any, gradient: Tensor, wanted: bool
    ) -> tuple[Tensor | None, list[Tensor]]:
        return self.through(saved, gradient) if wanted else None, []


class Fold(WithoutParameters):
    """(runs, batch, channels, height, width) -> (batch, runs * channels, height, width)."""

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        runs = len(x)
        x = x.transpose(0, 1).flatten(1, 2)
        return x.contiguous(memory_format=image_format(x)), runs

    def through(self, saved: Any, gradient: Tensor) -> Tensor:
        return gradient.unflatten(1, (saved, -1)).transpose(0, 1)


class Unfold(WithoutParameters):
    """(batch, runs * channels, height, width) -> (runs, batch, features)."""

    def __init__(self, runs: int) -> None:
        self.runs = runs

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        return x.unflatten(1, (self.runs, -1)).transpose(0, 1).flatten(2), x

    def through(self, saved: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.unflatten(2, (-1, *saved.shape[2:])).transpose(0, 1).flatten(1, 2)
        return gradient.contiguous(memory_format=image_format(saved))


def image_format(x: Tensor) -> torch.memory_format:
    """How images lie in memory: channels last on a GPU, whose fast convolutions want it."""
    return torch.channels_last if x.is_cuda else torch.contiguous_format
