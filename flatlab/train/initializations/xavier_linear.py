"""The weights that an architecture draws while it is built, but for its linear layers.

Their weights are uniform with the deviation sqrt(2/(fan-in + fan-out)) of Glorot and Bengio (2010).
timm draws many of them with a deviation of 0.02, which suits widths of some hundreds: networks with
widths of some dozens hardly learn from there.
"""

from __future__ import annotations

from torch import nn


def draw(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
