"""The weights that the architecture draws when it is built, except for its linear layers.

These have uniform weights with standard deviation sqrt(2/(fan-in + fan-out)) (Glorot and Bengio,
2010). timm draws many of them with a deviation of 0.02, which suits widths of several hundred:
networks a few dozen units wide hardly learn from it.
"""

from torch import nn


def draw(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
