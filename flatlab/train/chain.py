"""Layers of several networks at once, with their gradients written out.

The weights of a layer are stacked over the runs, (runs, ...), and one kernel serves them all.
Autograd would take longer than the arithmetic of networks this small, and a step that is a plain
sequence of kernels can be recorded as a CUDA graph.

Vectors are (runs, batch, features). Images are (batch, runs * channels, height, width), so that
one grouped convolution serves all runs, and operations on single channels (batch norm, pooling) are
the framework's own. `fold` and `unfold` convert between the two.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
"""The kernels that autograd itself calls."""

Gradients = tuple[Tensor | None, list[Tensor]]
Backward = Callable[[Tensor, bool], Gradients]
Passed = tuple[Tensor, Backward]
Applied = tuple[Tensor, Callable[[Tensor], Tensor]]


class Layer:
    """A layer of all runs.

    forward: from the input, and whether in training mode, to the output and the backward pass of
    this call. That is a map from the gradient with respect to the output, and whether the one with
    respect to the input is wanted, to the latter (or None) and the gradients of `parameters`.
    """

    def __init__(
        self, forward: Callable[[Tensor, bool], Passed], *parameters: Tensor | None
    ) -> None:
        self.forward = forward
        self.parameters = [tensor for tensor in parameters if tensor is not None]


def chain(layers: Sequence[Layer]) -> Layer:
    """A sequence of layers as one."""
    trained = [number for number, layer in enumerate(layers) if layer.parameters]
    lowest = min(trained, default=len(layers))

    def forward(x: Tensor, training: bool) -> Passed:
        tape: list[Backward] = []
        for layer in layers:
            x, backward = layer.forward(x, training)
            tape.append(backward)

        def through(gradient: Tensor, wanted: bool) -> Gradients:
            # Below the lowest layer with parameters only the gradient of the input is computed.
            last = 0 if wanted else lowest
            result: list[Tensor] = []
            flowing: Any = gradient
            for number in range(len(tape) - 1, last - 1, -1):
                flowing, gradients = tape[number](flowing, wanted or number > last)
                result[:0] = gradients
            return flowing if wanted else None, result

        return x, through

    return Layer(forward, *(tensor for layer in layers for tensor in layer.parameters))


def function(apply: Callable[[Tensor], Applied]) -> Layer:
    """A layer without parameters.

    apply: from the input to the output and the map between the gradients with respect to them.
    """

    def forward(x: Tensor, training: bool) -> Passed:
        y, through = apply(x)
        return y, lambda gradient, wanted: (through(gradient) if wanted else None, [])

    return Layer(forward)


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
    """The layout of images in memory: channels last where that has fast kernels.

    A CPU has them in float32, a GPU for TF32. Elsewhere the framework's own layout keeps, in
    float64, the rounding of mode `loop`.
    """
    cudnn: Any = torch.backends.cudnn
    fast = not x.is_cuda or cudnn.conv.fp32_precision == "tf32"
    return torch.channels_last if fast and x.dtype == torch.float32 else torch.contiguous_format
