"""Layers of several networks at once, with their gradients written out.

The weights of a layer are stacked over the runs, (runs, ...), and one kernel serves them all.
Autograd would take longer than the arithmetic of networks this small, and a step that is a plain
sequence of kernels can be recorded as a CUDA graph.

Vectors are (runs, batch, features). Images are (batch, runs * channels, height, width), so that
one grouped convolution serves all runs, and operations on single channels (batch norm, pooling) are
the framework's own. `fold` and `unfold` convert between the two.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

aten = torch.ops.aten
"""The kernels that autograd itself calls."""


class Product(NamedTuple):
    """The gradient left @ right of a large weight, which the optimizer computes run by run.

    left: (runs, outputs, batch).
    right: (runs, batch, inputs).
    """

    left: Tensor
    right: Tensor


Gradients = tuple[Tensor | None, list[Any]]
"""The gradient of a layer's input, None unless it was needed, and those of its parameters: tensors,
or `Product`s where the optimizer asks for them."""

Backward = Callable[[Tensor, bool], Gradients]
"""From the gradient of the output, and whether that of the input is needed, to the gradients."""

Forward = tuple[Tensor, Backward]
"""The output of a layer, and the backward pass (vector-Jacobian product) of this call."""

FixedForward = tuple[Tensor, Callable[[Tensor], Tensor]]
"""The same without parameters: the output, and the map from its gradient to the input's."""


class Layer:
    """A layer of all runs.

    forward: from the input, and whether in training mode, to the output and its backward pass.
    parameters: those that are trained, (runs, ...) or (runs * channels, ...); None is left out.
    """

    def __init__(
        self, forward: Callable[[Tensor, bool], Forward], *parameters: Tensor | None
    ) -> None:
        self.forward = forward
        self.parameters = [tensor for tensor in parameters if tensor is not None]


def sequential(layers: Sequence[Layer]) -> Layer:
    """A sequence of layers as one."""
    trained = [number for number, layer in enumerate(layers) if layer.parameters]
    lowest = min(trained, default=len(layers))

    def forward(x: Tensor, training: bool) -> Forward:
        tape: list[Backward] = []
        for layer in layers:
            x, layer_backward = layer.forward(x, training)
            tape.append(layer_backward)

        def backward(gradient: Tensor, need_input_gradient: bool) -> Gradients:
            # Below the lowest layer with parameters only the gradient of the input is computed.
            last = 0 if need_input_gradient else lowest
            of_parameters: list[Any] = []
            of_signal: Any = gradient
            for number in range(len(tape) - 1, last - 1, -1):
                needed = need_input_gradient or number > last
                of_signal, gradients = tape[number](of_signal, needed)
                of_parameters[:0] = gradients
            return of_signal if need_input_gradient else None, of_parameters

        return x, backward

    return Layer(forward, *(tensor for layer in layers for tensor in layer.parameters))


def parameterless(apply: Callable[[Tensor], FixedForward]) -> Layer:
    """A layer without parameters, such as an activation or pooling."""

    def forward(x: Tensor, training: bool) -> Forward:
        y, input_gradient = apply(x)

        def backward(gradient: Tensor, need_input_gradient: bool) -> Gradients:
            return input_gradient(gradient) if need_input_gradient else None, []

        return y, backward

    return Layer(forward)


def fold(x: Tensor, layout: torch.memory_format) -> FixedForward:
    """(runs, batch, channels, height, width) -> (batch, runs * channels, height, width)."""
    y = x.transpose(0, 1).flatten(1, 2).contiguous(memory_format=layout)
    return y, lambda gradient: gradient.unflatten(1, (len(x), -1)).transpose(0, 1)


def unfold(x: Tensor, runs: int, layout: torch.memory_format) -> FixedForward:
    """(batch, runs * channels, height, width) -> (runs, batch, features)."""

    def input_gradient(gradient: Tensor) -> Tensor:
        gradient = gradient.unflatten(2, (-1, *x.shape[2:])).transpose(0, 1).flatten(1, 2)
        return gradient.contiguous(memory_format=layout)

    return x.unflatten(1, (runs, -1)).transpose(0, 1).flatten(2), input_gradient
