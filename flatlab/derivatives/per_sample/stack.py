"""Let several networks of one architecture be one, each of them for its own part of a batch.

Products with weights are done for each network alone, all else once, for the samples of all
networks. So numbers are those of each network alone: on a CPU to the bit, where parts of batches
begin at multiples of 64 bytes, otherwise to rounding.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.derivatives.per_sample.convolution import with_fast_input_gradient

State = Mapping[str, Tensor]


def networks_of(module: nn.Module) -> list[Any]:
    """The layer of each network of a stack; where there is none, the layer itself."""
    return vars(module).get("networks", [module])


def cat(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """The tensors one after the other; a single one is not copied."""
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors), dim)


@contextmanager
def stacked(modules: Mapping[str, nn.Module], states: Sequence[State]) -> Iterator[None]:
    """While it lasts, the k-th part of what each module is given goes through that of network k.

    modules: by name, all that have parameters or buffers.
    states: the state dictionary of each network.
    """
    try:
        for name, module in modules.items():
            own = [_with_state(module, name, state) for state in states]
            vars(module).update(networks=own, forward=partial(_forward, own))
        yield
    finally:
        for module in modules.values():
            for attribute in ("networks", "forward"):
                vars(module).pop(attribute, None)


def _with_state(module: nn.Module, name: str, state: State) -> nn.Module:
    """A copy of a module with the weights of another network."""
    other = copy.copy(module)
    for held in ("_parameters", "_buffers"):
        tensors = vars(module)[held].items()
        own = {k: None if t is None else state[f"{name}.{k}"].to(t.detach()) for k, t in tensors}
        vars(other)[held] = own
    return other


def _forward(networks: Sequence[nn.Module], x: Tensor) -> Tensor:
    parts = []
    for network, part in zip(networks, x.chunk(len(networks)), strict=True):
        y = type(network).forward(network, part)
        fast = with_fast_input_gradient(network, part, y)
        parts.append(y if fast is None else fast)
    joined: Tensor = _Joined.apply(*parts)
    return joined


class _Joined(torch.autograd.Function):
    """Parts one after the other; each gets a gradient in memory of its own, as it has alone."""

    @staticmethod
    def forward(ctx: Any, *parts: Tensor) -> Tensor:
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient,) = gradients
        return tuple(part.clone() for part in gradient.chunk(len(ctx.needs_input_grad)))
