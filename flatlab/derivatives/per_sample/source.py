"""What derivatives are with respect to: inputs, or for tokens the output of the first embedding."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError

NO_EMBEDDING = (
    "inputs are integers and the network calls no torch.nn.Embedding: derivatives with respect to "
    "them need real numbers; measure the part of the network behind the embedding"
)


class Source:
    """Of one forward pass.

    leaf: the tensor that derivatives arrive at, (samples, ...).
    values: its numbers: those of the inputs, or of the embedding; 0 for masks and padding.
    name: of the embedding; "" for real inputs.
    """

    def __init__(self) -> None:
        self.name = ""
        self._leaf: Tensor | None = None
        self._values: Tensor | None = None

    def set(self, leaf: Tensor, values: Tensor, name: str = "") -> None:
        self._leaf, self._values, self.name = leaf, values.detach(), name

    @property
    def known(self) -> bool:
        return self._leaf is not None

    @property
    def leaf(self) -> Tensor:
        if self._leaf is None:
            raise MeasureError(NO_EMBEDDING)
        return self._leaf

    @property
    def values(self) -> Tensor:
        if self._values is None:
            raise MeasureError(NO_EMBEDDING)
        return self._values


@contextmanager
def reading(model: nn.Module, inputs: Tensor) -> Iterator[Source]:
    """The source of a forward pass of these inputs, which is run while the context lasts.

    Real inputs must require gradients. To the output of the first embedding that tokens reach a
    tensor of zeros is added, which changes no number; the embedding keeps its own derivatives.
    """
    source = Source()
    seen = getattr(model, "flatlab_seen", None)  # of a network that takes masks

    def unmasked(values: Tensor) -> Tensor:
        return values if seen is None else seen(inputs.detach(), values.detach())

    if inputs.is_floating_point():
        source.set(inputs, unmasked(inputs))
        yield source
        return

    def add(name: str) -> Any:
        def hook(module: nn.Module, arguments: Any, output: Tensor) -> Tensor | None:
            if source.known:
                return None
            leaf = torch.zeros_like(output, requires_grad=True)
            source.set(leaf, unmasked(output), name)
            return output + leaf

        return hook

    handles = [
        module.register_forward_hook(add(name))
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding)
    ]
    try:
        yield source
    finally:
        for handle in handles:
            handle.remove()
