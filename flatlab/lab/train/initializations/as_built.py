"""The weights that the architecture draws when it is built, with the same seed."""

from torch import nn


def draw(model: nn.Module) -> None:
    """Nothing is left to draw."""
