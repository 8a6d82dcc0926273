"""Changes of a network's parameters that leave its function as it is.

A pair is a linear or convolution layer and the next one, with nothing between them but operations
on single channels. Its channels can be permuted and, where those operations are positively
homogeneous, multiplied by positive numbers that the next layer divides by. A convolution in front
of a batch norm in evaluation mode can be multiplied by any positive numbers if the statistics
follow. Pairs are found in `nn.Sequential` and `Residual`, whose order of computation is known.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.networks._modules import ACTIVATIONS, Residual

MATRICES = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = nn.modules.batchnorm._BatchNorm
POOLS = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d)
HOMOGENEOUS = (nn.ReLU, nn.LeakyReLU, nn.Identity, nn.Dropout, nn.Dropout2d, nn.Flatten, *POOLS)
ELEMENTWISE = (nn.GELU, nn.SiLU, nn.Sigmoid, nn.Softplus, nn.ReLU6, *ACTIVATIONS.values())
KINDS = ("last-layer", "layers", "neurons", "permutation", "batch-norm")
"""What `transformed` can do. A literal, as plans read it without importing this file."""
SMALLEST, LARGEST = 0.1, 10.0
"""Factors are drawn between these, uniformly in their logarithm."""
OF_LAST_LAYER = 5, 25
"""The factor of `last-layer` is an integer between these, all equally likely."""


@dataclass(frozen=True)
class LayerPair:
    """Two layers with channels between them.

    first: a layer.
    norm: the batch norm behind it, or None.
    second: the next layer.
    homogeneous: whether multiplying the channels between them by positive numbers commutes with
    what lies between.
    """

    first: Any
    norm: Any
    second: Any
    homogeneous: bool

    @property
    def channels(self) -> int:
        return len(self.first.weight)

    def scale(self, factors: Tensor) -> None:
        """Multiply the channels by positive numbers, (channels), and divide them out again."""
        last = self.norm or self.first
        _multiply(last, factors)
        _by_channel(self.second.weight.data, self.channels).div_(_shaped(factors, 3, 1))

    def permute(self, order: Tensor) -> None:
        """Put the channels into another order, (channels)."""
        for module in filter(None, (self.first, self.norm)):
            for tensor in (*module._parameters.values(), *module._buffers.values()):
                if tensor is not None and tensor.ndim:
                    tensor.data.copy_(tensor.data[order].clone())
        columns = _by_channel(self.second.weight.data, self.channels)
        columns.copy_(columns[:, order].clone())


def pairs(model: nn.Module) -> list[LayerPair]:
    """All pairs of a network, from its inputs to its outputs; empty where none is recognized."""
    uses = Counter(id(p) for _, p in model.named_parameters(remove_duplicate=False))
    layer_pairs: list[LayerPair] = []
    first, norm, between = None, None, list[type]()
    for module in _in_order(model):
        kind = type(module)
        if isinstance(module, MATRICES):
            unshared = uses[id(module.weight)] == 1  # neither shared nor computed from others
            if first is not None and unshared and _fit(first, module, between):
                layer_pairs.append(LayerPair(first, norm, module, not {*between} - {*HOMOGENEOUS}))
            first, norm, between = module if unshared else None, None, []
        elif isinstance(module, NORMS) and module.affine and first is not None and norm is None:
            norm = module
        elif kind in (*HOMOGENEOUS, *ELEMENTWISE):
            between.append(kind)
        else:
            first, norm, between = None, None, []
    return layer_pairs


def normalized(model: nn.Module) -> list[tuple[Any, Any]]:
    """The convolution and linear layers directly in front of a batch norm, and that norm."""
    order = [*_in_order(model)]
    return [
        (layer, norm)
        for layer, norm in pairwise(order)
        if isinstance(layer, MATRICES) and isinstance(norm, NORMS) and norm.track_running_stats
    ]


@torch.no_grad()
def scale_before_norm(layer: Any, norm: Any, factors: Tensor) -> None:
    """Multiply the outputs of a layer by positive numbers, which the statistics take up.

    The variance v becomes a^2 (v + eps) - eps, so that the function is the same with any eps.
    """
    _multiply(layer, factors)
    norm.running_mean.mul_(factors)
    norm.running_var.add_(norm.eps).mul_(factors.square()).sub_(norm.eps)


@torch.no_grad()
def transformed(model: nn.Module, kind: str, seed: int = 0) -> nn.Module:
    """A copy of a network in evaluation mode with other parameters and the same function.

    kind: `layers` (one factor for each pair), `neurons` (one for each channel), `permutation`,
        `batch-norm` (one for each channel in front of a batch norm), or `last-layer` (the last
        layer multiplied, the layer before it divided; petzka2021 App. C.2).
    seed: of the random factors and orders.

    Raises `ValueError` where the network has nothing that can be changed so.
    """
    model = copy.deepcopy(model)
    draw = torch.Generator().manual_seed(seed)

    def factors(count: int, like: Tensor) -> Tensor:
        span = torch.tensor(LARGEST / SMALLEST, dtype=torch.float64)
        drawn = SMALLEST * span ** torch.rand(count, generator=draw, dtype=torch.float64)
        return drawn.to(like)

    def divided(like: Tensor) -> Tensor:
        low, high = OF_LAST_LAYER
        return 1 / torch.randint(low, high + 1, (1,), generator=draw).to(like)

    changes: dict[str, Callable[[LayerPair], None]] = {
        "layers": lambda p: p.scale(factors(1, p.first.weight).expand(p.channels)),
        "neurons": lambda p: p.scale(factors(p.channels, p.first.weight)),
        "permutation": lambda p: p.permute(torch.randperm(p.channels, generator=draw)),
        "last-layer": lambda p: p.scale(divided(p.first.weight).expand(p.channels)),
    }
    targets: list[Any]
    if kind == "batch-norm":
        targets = normalized(model)
        for layer, norm in targets:
            scale_before_norm(layer, norm, factors(len(layer.weight), layer.weight))
    else:
        targets = [pair for pair in pairs(model) if pair.homogeneous or kind == "permutation"]
        if kind == "last-layer":
            last = [layer for layer in _in_order(model) if isinstance(layer, MATRICES)][-1:]
            targets = [pair for pair in targets if [pair.second] == last]
        for pair in targets:
            changes[kind](pair)
    if not targets:
        raise ValueError(f"{type(model).__name__} has no layers to which {kind!r} applies")
    return model


def _in_order(module: nn.Module) -> Iterator[nn.Module]:
    """The modules that compute, in order; a `Residual` itself stands at both of its ends."""
    if isinstance(module, nn.Sequential):
        for child in module:
            yield from _in_order(child)
    elif isinstance(module, Residual):
        for part in (module.body, module.shortcut):
            yield module
            yield from _in_order(part)
        yield module
    else:
        yield module


def _fit(first: Any, second: Any, between: list[type]) -> bool:
    """Whether each output channel of a layer is a run of inputs of the next one."""
    if max(getattr(layer, "groups", 1) for layer in (first, second)) > 1:
        return False
    several, rest = divmod(second.weight.shape[1], len(first.weight))
    if isinstance(first, nn.Linear):
        pooled = {*between} & {*POOLS}
        return isinstance(second, nn.Linear) and (several, rest) == (1, 0) and not pooled
    flat = nn.Flatten in between
    return not rest and (flat if isinstance(second, nn.Linear) else several == 1 and not flat)


def _multiply(module: Any, factors: Tensor) -> None:
    for tensor in (module.weight, module.bias):
        if tensor is not None:
            tensor.data.mul_(_shaped(factors, tensor.ndim, 0))


def _by_channel(weight: Tensor, channels: int) -> Tensor:
    """(outputs, channels, the rest): a view of the weight of the layer behind the channels."""
    return weight.view(len(weight), channels, -1)


def _shaped(factors: Tensor, ndim: int, axis: int) -> Tensor:
    return factors.view([-1 if dim == axis else 1 for dim in range(ndim)])
