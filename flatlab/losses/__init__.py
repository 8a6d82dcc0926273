"""Losses: one file each, whose stem is the key; training, curves, gaps and measures all use it.

Each file has a class `Loss`, a subclass of `flatlab.losses.Loss`, and a class `Options` where the
loss has options, which are keys of a grid's section `training`.
"""

from flatlab.losses._base import Loss, loss_of

__all__ = ["Loss", "loss_of"]
