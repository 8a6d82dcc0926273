"""Replacements for torch operations whose double backward is wrong."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """g v / |v|, norms over all dimensions but one: the second backward of torch's own is wrong."""
    return v * (g / torch.norm_except_dim(v, 2, dim))


RECOMPOSED: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "WeightNormInterfaceBackward0": (torch._weight_norm, weight_norm)
}
"""By the name of its node in a graph: an operation, and what has the same values."""


class _Recomposing(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        for fused, composed in RECOMPOSED.values():
            if func is fused:
                return composed(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


@contextmanager
def recomposed(operations: set[str]) -> Iterator[None]:
    """Compute what a network needs of these operations from others.

    operations: names of nodes in the network's graph. Without one of ours nothing changes.
    """
    if operations.isdisjoint(RECOMPOSED):
        yield
        return
    with _Recomposing():
        yield
