"""Operations that the optimizers share."""

from types import ModuleType

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


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
