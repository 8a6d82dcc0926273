"""Optimizers: one file each, whose stem is the value of `training.optimizer`.

Each file has

    READS                                     a literal: the keys of `training` that are its own
    Stacked(parameters, training, runs)       the update of stacked parameters, by a few kernels
    reference(parameters, training)           torch's own optimizer, for the mode `loop`
    state_of(update, parameter)               its tensors of one parameter, in a fixed order

`Stacked` has `state`, a list of tensors, and `step(gradients, rate)`, which updates in place.
gradients: in the order of the parameters; they are used up.  rate: the learning rate; a tensor of
one number where the step is recorded and the rate may change behind it; (runs) where each run has
its own. `state_of` makes the tensors that torch would make with the first step, so that they can be
read and written before it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from torch import Tensor

from flatlab.plan import module_of


def optimizer_of(training: Mapping[str, Any]) -> ModuleType:
    """The file of the optimizer that a training names."""
    return importlib.import_module(module_of("train/optimizers", training["optimizer"]))


def by_run(tensor: Tensor, factors: Tensor) -> Tensor:
    """A tensor (runs, ...) or (runs * channels, ...) times the factor of each run (runs)."""
    runs = tensor.unflatten(0, (len(factors), -1))
    return (runs * factors.view(-1, *[1] * tensor.ndim)).flatten(0, 1)
