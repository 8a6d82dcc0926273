"""From several networks of one architecture to one chain of stacked layers."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from flatlab.plan import module_of
from flatlab.train.chain import Chain, Fold, Layer, image_format


class NotStackable(Exception):
    """A layer that has no stacked form; the message names it."""


def stack(models: Sequence[nn.Module], rules: Sequence[str]) -> tuple[Chain, dict[str, Tensor]]:
    """The layers of several networks of one architecture, and their tensors (runs, ...) by name.

    rules: the files of `flatlab.train.layers` that stack them, by key. The tensors are those that
    the layers use: what is written into them is what the layers compute with. Raises
    `NotStackable`.
    """
    return Builder(models, rules).build()


class Builder:
    """Walks an architecture; knows whether the signal is folded images or vectors."""

    def __init__(self, models: Sequence[nn.Module], rules: Sequence[str]) -> None:
        self.model, self.runs, self.rules = models[0], len(models), rules
        self._modules = [importlib.import_module(module_of("train/layers", key)) for key in rules]
        states = [model.state_dict() for model in models]
        self.tensors: dict[str, Tensor] = {}
        self.flat: dict[str, Tensor] = {}
        for name in states[0]:
            tensor = torch.stack([state[name].detach() for state in states])
            if tensor.ndim == 5:  # of a convolution; channels last is a layout of 4 dimensions
                images = tensor.flatten(0, 1)
                images = images.contiguous(memory_format=image_format(tensor))
                tensor = images.unflatten(0, (self.runs, -1))
                self.flat[name] = images
            self.tensors[name] = tensor
        self.used: set[str] = set()
        self.folded = False

    def build(self) -> tuple[Chain, dict[str, Tensor]]:
        chain = self.chain(self.model, "")
        if unused := sorted(set(self.tensors) - self.used):
            raise NotStackable(f"{unused[0]} belongs to no layer that can be stacked")
        return chain, self.tensors

    def chain(self, modules: nn.Module, prefix: str) -> Chain:
        """The layers of a sequence.  prefix: what stands before their names in the tensors."""
        layers: list[Layer] = []
        for name, module in modules.named_children():
            layers += self._layers(module, f"{prefix}{name}")
        return Chain(layers)

    def _layers(self, module: nn.Module, name: str) -> list[Layer]:
        if type(module) is nn.Sequential:
            return [self.chain(module, f"{name}.")]
        for rule in self._modules:
            layers = rule.stacked(module, name, self)
            if layers is not None:
                return layers
        raise NotStackable(
            f"the layer {name} ({type(module).__name__}) has no stacked form among the layers that "
            f"its architecture lists, {', '.join(self.rules) or 'none'}; add there the file of "
            "flatlab/train/layers that makes one"
        )

    def fold(self) -> list[Layer]:
        """What a layer of images needs before it: nothing where the signal is folded already."""
        folded, self.folded = self.folded, True
        return [] if folded else [Fold()]

    def tensor(self, name: str, folded: bool = False) -> Tensor | None:
        """A tensor of all runs, (runs, ...), or folded (runs * channels, ...); None: there is none.

        It counts as used.
        """
        if name not in self.tensors:
            return None
        self.used.add(name)
        if not folded:
            return self.tensors[name]
        return self.flat.get(name, self.tensors[name].flatten(0, 1))

    def required(self, name: str, folded: bool = False) -> Tensor:
        """The same of a tensor that must be there."""
        tensor = self.tensor(name, folded)
        if tensor is None:
            raise NotStackable(f"{name} is missing in the network")
        return tensor
