"""Layers of several networks at once, with their gradients written out.

The weights of a layer are stacked over the runs, (runs, ...), and one kernel serves them all. The
gradients are written out because autograd takes longer than the arithmetic of networks this small,
and because a step that is a plain sequence of kernels can be recorded as a CUDA graph.

Vectors are (runs, batch, features). Images are (batch, runs * channels, height, width), so that
one grouped convolution serves all runs, and operations on single channels (batch norm, pooling) are
the framework's own. `fold` and `unfold` convert between the two.
"""

import functools
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

aten = torch.ops.aten
"""The kernels that autograd itself calls."""

Gradients = tuple[Tensor | None, list[Tensor]]
Backward = Callable[[Tensor, bool], Gradients]


class Layer(Protocol):
    """A layer of all runs.

    forward returns the output and the backward pass of this call: from the gradient with respect to
    the output, and whether that with respect to the input is wanted, to the latter (or None) and
    the gradients of `parameters`, in their order.
    """

    parameters: list[Tensor]

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Backward]: ...


class Chain:
    """A sequence of layers."""

    def __init__(self, layers: list[Layer]) -> None:
        self.layers = layers
        self.parameters = [tensor for layer in layers for tensor in layer.parameters]
        trained = [number for number, layer in enumerate(layers) if layer.parameters]
        self._lowest = min(trained, default=len(layers))

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Backward]:
        tape: list[Backward] = []
        for layer in self.layers:
            x, backward = layer.forward(x, training)
            tape.append(backward)
        return x, functools.partial(self._backward, tape)

    def _backward(self, tape: list[Backward], gradient: Tensor, wanted: bool) -> Gradients:
        # Below the lowest layer with parameters only the gradient of the input is computed.
        last = 0 if wanted else self._lowest
        result: list[Tensor] = []
        flowing: Tensor | None = gradient
        for number in range(len(tape) - 1, last - 1, -1):
            assert flowing is not None
            flowing, gradients = tape[number](flowing, wanted or number > last)
            result[:0] = gradients
        return flowing if wanted else None, result


Applied = tuple[Tensor, Callable[[Tensor], Tensor]]


class Function:
    """A layer without parameters.

    function: from the input to the output and the map between the gradients with respect to them.
    """

    def __init__(self, function: Callable[[Tensor], Applied]) -> None:
        self.function = function
        self.parameters: list[Tensor] = []

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Backward]:
        y, through = self.function(x)
        return y, lambda gradient, wanted: (through(gradient) if wanted else None, [])


def fold(x: Tensor) -> Applied:
    """(runs, batch, channels, height, width) -> (batch, runs * channels, height, width)."""
    y = x.transpose(0, 1).flatten(1, 2)
    y = y.contiguous(memory_format=image_format(y))
    return y, lambda gradient: gradient.unflatten(1, (len(x), -1)).transpose(0, 1)


def unfold(x: Tensor, runs: int) -> Applied:
    """(batch, runs * channels, height, width) -> (runs, batch, features)."""

    def through(gradient: Tensor) -> Tensor:
        gradient = gradient.unflatten(2, (-1, *x.shape[2:])).transpose(0, 1).flatten(1, 2)
        return gradient.contiguous(memory_format=image_format(x))

    return x.unflatten(1, (runs, -1)).transpose(0, 1).flatten(2), through


def image_format(x: Tensor) -> torch.memory_format:
    """The layout of images in memory: channels last on a GPU, for its fast convolutions."""
    return torch.channels_last if x.is_cuda else torch.contiguous_format
