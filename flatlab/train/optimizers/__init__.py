"""Optimizers: one file each, whose stem is the value of `training.optimizer`.

Each file has

    Options                                   its options, which are keys of `training`
    Stacked(parameters, training, runs)       the update of stacked parameters, by a few kernels
    reference(parameters, training)           torch's own optimizer, for the mode `loop`
    state_of(update, parameter)               its tensors for one parameter, in a fixed order

`Stacked` has `state`, a list of tensors, and `step(gradients, rate)`, which updates in place.
gradients: in the order of the parameters; they are overwritten.  rate: a tensor with one number if
the step is recorded, so that it can change afterwards; (runs) if each run has its own. `state_of`
creates the tensors that torch would create in the first step, so that they can be read before it.
"""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from flatlab.plan import module_of


def tensors_of(model: nn.Module, update: Optimizer, rule: ModuleType) -> dict[str, Tensor]:
    """Everything that the next steps of a model depend on: `model.<name>`, `update.<...>`.

    update: torch's optimizer of the model.  rule: the module that made it.
    """
    return {f"model.{name}": tensor for name, tensor in model.state_dict().items()} | {
        f"update.{number}.{part}": tensor
        for number, parameter in enumerate(model.parameters())
        for part, tensor in enumerate(rule.state_of(update, parameter))
    }


def by_run(tensor: Tensor, factors: Tensor) -> Tensor:
    """A tensor (runs, ...) or (runs * channels, ...) times one factor for each run, (runs)."""
    runs = tensor.unflatten(0, (len(factors), -1))
    return (runs * factors.view(-1, *[1] * tensor.ndim)).flatten(0, 1)


def descend(parameters: list[Tensor], directions: list[Tensor], rate: float | Tensor) -> None:
    """parameters -= rate * directions.  rate: as for `Stacked.step`."""
    if isinstance(rate, Tensor) and rate.ndim:
        torch._foreach_sub_(parameters, [by_run(each, rate) for each in directions])
    elif isinstance(rate, Tensor):
        torch._foreach_sub_(parameters, torch._foreach_mul(directions, rate))
    else:
        torch._foreach_add_(parameters, directions, alpha=-rate)
