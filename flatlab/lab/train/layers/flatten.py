"""Flattening: images, or samples with several axes, become vectors."""

import functools

from torch import Tensor, nn

from flatlab.lab.train.stacked_layers import FixedForward, Layer, parameterless, unfold
from flatlab.lab.train.stacking import StackBuilder


def flatten(x: Tensor) -> FixedForward:
    """(runs, batch, ...) -> (runs, batch, features)."""
    return x.flatten(2), lambda gradient: gradient.reshape(x.shape)


def stacked(module: nn.Module, name: str, builder: StackBuilder) -> list[Layer] | None:
    if type(module) is not nn.Flatten or (module.start_dim, module.end_dim) != (1, -1):
        return None
    folded, builder.folded = builder.folded, False
    of_images = functools.partial(unfold, runs=builder.runs, layout=builder.layout)
    return [parameterless(of_images if folded else flatten)]
