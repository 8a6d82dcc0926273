"""Directions in the space of the parameters: random, of the top eigenvectors, between networks.

A random direction is normalized by filters (Li, Xu, Taylor, Studer and Goldstein, 2018): each
filter of it, the part of a weight that makes one output channel or unit, has the norm of that
filter of the network; biases and scales and shifts of normalizations, which are vectors, stay.
"""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError

State = dict[str, Tensor]
"""Real tensors of a state dictionary, parameters and buffers."""


def state_of(model: nn.Module) -> State:
    """Parameters and buffers that are real numbers."""
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: t.detach() for name, t in state.items() if t.is_floating_point()}


def random_direction(model: nn.Module, generator: torch.Generator) -> State:
    """A normal one, normalized by filters, in the parameters that require gradients."""
    direction = {}
    for name, weight in model.named_parameters():
        if weight.requires_grad and weight.is_floating_point():
            drawn = torch.randn(weight.shape, generator=generator, dtype=torch.float64).to(weight)
            if weight.ndim < 2:
                continue
            dims = tuple(range(1, weight.ndim))
            norms = drawn.square().sum(dims, keepdim=True).sqrt()
            filters = weight.detach().square().sum(dims, keepdim=True).sqrt()
            direction[name] = drawn * filters / norms
    if not direction:
        raise MeasureError("the network has no weights with filters, so no random direction")
    return direction


def of_vector(model: nn.Module, vector: Tensor) -> State:
    """A vector of all trainable parameters as a direction."""
    theta = {name: p for name, p in model.named_parameters() if p.requires_grad}
    parts = vector.split([p.numel() for p in theta.values()])
    return {n: part.view_as(p).to(p) for (n, p), part in zip(theta.items(), parts, strict=True)}


def between(model: nn.Module, other: nn.Module) -> State:
    """From one network to another, buffers included.

    Raises `MeasureError` where their tensors differ in name or shape.
    """
    first, second = state_of(model), state_of(other)
    if {n: t.shape for n, t in first.items()} != {n: t.shape for n, t in second.items()}:
        raise MeasureError("the networks differ in the names or shapes of their parameters")
    return {name: second[name].to(tensor) - tensor for name, tensor in first.items()}


def inner(first: State, second: State, model: nn.Module) -> float:
    """The inner product of two directions in the parameters."""
    names = [name for name, _ in model.named_parameters() if name in first and name in second]
    return sum(float((first[name].double() * second[name].double()).sum()) for name in names)


class Moved:
    """A copy of a network that stands at points of a line or plane through it.

    model: the network, at the origin.
    directions: one or two.
    """

    def __init__(self, model: nn.Module, directions: Sequence[State]) -> None:
        self.model, self.directions = copy.deepcopy(model), directions
        self.origin = {name: tensor.clone() for name, tensor in state_of(self.model).items()}

    @torch.no_grad()
    def at(self, point: Sequence[float]) -> nn.Module:
        """The network at a point.  point: the coordinates along the directions."""
        for name, tensor in state_of(self.model).items():
            moved = self.origin[name].clone()
            for share, direction in zip(point, self.directions, strict=True):
                if name in direction:
                    moved += share * direction[name]
            # beyond the networks a line leads to variances below 0
            tensor.copy_(moved.clamp(min=0) if name.endswith("running_var") else moved)
        return self.model
