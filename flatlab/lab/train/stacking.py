"""Stacks several networks of one architecture into one sequence of layers."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.core.registry import imported
from flatlab.lab.jobs.memory import keep_freed_memory
from flatlab.lab.train.stacked_layers import Layer, fold, parameterless, sequential


class NotStackable(Exception):
    """A layer that has no stacked form; the message names it."""


def stack_models(
    models: Sequence[nn.Module], rules: Sequence[str], products: bool = False
) -> tuple[Layer, dict[str, Tensor]]:
    """The layers of several networks of one architecture, and their tensors (runs, ...) by name.

    models: the networks.
    rules: the files of `flatlab.lab.train.layers` that stack them, by key.
    products: leave the gradients of large linear layers as products.

    The layers compute with these tensors: what is written into them takes effect. Raises
    `NotStackable`.
    """
    keep_freed_memory()
    builder = StackBuilder(models, rules, products)
    layers = builder.sequential(models[0], "")
    if unused := sorted(set(builder.tensors) - builder.used):
        raise NotStackable(f"{unused[0]} belongs to no layer that can be stacked")
    return layers, builder.tensors


def computed_order(modules: nn.Module) -> list[tuple[str, nn.Module]]:
    """The children of a sequence, ReLU behind the max pooling that follows it.

    They commute, at ties and zeros too, in values and gradients: ReLU is monotone, and no gradient
    passes where the maximum is not positive. So ReLU need only see the maxima.
    """
    children = list(modules.named_children())
    for position, pair in enumerate(pairwise(modules.named_children())):
        if [type(module) for _, module in pair] == [nn.ReLU, nn.MaxPool2d]:
            children[position : position + 2] = reversed(pair)
    return children


WIDE = 256
"""Channels from which on a CPU computes one network's images faster in the framework's layout."""


def image_layout(runs: int, tensors: Sequence[Tensor]) -> torch.memory_format:
    """The layout of images in memory: channels last where that has fast kernels.

    A CPU has them in float32, but for a wide network by itself; a GPU for TF32. Elsewhere the
    framework's own layout keeps, in float64, the rounding of mode `loop`.

    tensors: those of one network.
    """
    cudnn: Any = torch.backends.cudnn
    wide = runs == 1 and any(tensor.ndim == 4 and len(tensor) >= WIDE for tensor in tensors)
    on_gpu = any(tensor.is_cuda for tensor in tensors)
    fast = cudnn.conv.fp32_precision == "tf32" if on_gpu else not wide
    single = any(tensor.dtype == torch.float32 for tensor in tensors)
    return torch.channels_last if fast and single else torch.contiguous_format


class StackBuilder:
    """Walks through an architecture; knows whether the signal is folded images or vectors."""

    def __init__(
        self, models: Sequence[nn.Module], rules: Sequence[str], products: bool = False
    ) -> None:
        self.runs, self.rules, self.products = len(models), rules, products
        self._modules = [imported("train/layers", key) for key in rules]
        states = [model.state_dict() for model in models]
        self.tensors: dict[str, Tensor] = {}
        self._folded: dict[str, Tensor] = {}
        self.layout = image_layout(self.runs, [*states[0].values()])
        for name in states[0]:
            tensor = torch.stack([state[name].detach() for state in states])
            if tensor.ndim == 5:  # a convolution's; channels last is a layout of 4 dimensions
                images = tensor.flatten(0, 1).contiguous(memory_format=self.layout)
                self._folded[name], tensor = images, images.unflatten(0, (self.runs, -1))
            self.tensors[name] = tensor
        self.used: set[str] = set()
        self.folded = False

    def sequential(self, modules: nn.Module, prefix: str) -> Layer:
        """The layers of a sequence.  prefix: of their names in the tensors."""
        children = computed_order(modules)
        return sequential(
            [layer for name, module in children for layer in self._layers(module, prefix + name)]
        )

    def _layers(self, module: nn.Module, name: str) -> list[Layer]:
        if type(module) is nn.Sequential:
            return [self.sequential(module, f"{name}.")]
        for rule in self._modules:
            layers = rule.stacked(module, name, self)
            if layers is not None:
                return layers
        raise NotStackable(
            f"the layer {name} ({type(module).__name__}) has no stacked form among the layers that "
            f"its architecture lists, {', '.join(self.rules) or 'none'}; add the file of "
            "flatlab/train/layers that makes one to that list"
        )

    def fold(self) -> list[Layer]:
        """What must precede a layer of images: nothing if the signal is folded already."""
        folded, self.folded = self.folded, True
        return [] if folded else [parameterless(partial(fold, layout=self.layout))]

    def tensor(self, name: str, folded: bool = False) -> Any:
        """A tensor of all runs, (runs, ...), or folded (runs * channels, ...); None if absent."""
        if name not in self.tensors:
            return None
        self.used.add(name)
        tensor = self.tensors[name]
        return self._folded.get(name, tensor.flatten(0, 1)) if folded else tensor
