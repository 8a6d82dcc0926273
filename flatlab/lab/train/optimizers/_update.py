"""Operations that the optimizers share."""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from flatlab.lab.train.stacked_layers import Product


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


class ProductSteps:
    """Descent along gradients of which some are products, in fewer passes over the memory.

    On a GPU one kernel computes and subtracts a product. On a CPU that is done for one run after
    the other, while the product is in the cache: those of all runs together leave it. The kernel
    for one run must give the bits of the one for all of them, which is tried before the first step;
    else they are computed together.
    """

    def __init__(self) -> None:
        self.by_run: dict[int, bool] = {}
        self.buffers: dict[torch.Size, Tensor] = {}

    def descend(self, parameters: list[Tensor], gradients: list[Any], rate: float | Tensor) -> None:
        """parameters -= rate * gradients.

        rate: as for `Stacked.step`; a tensor where steps are recorded.
        """
        whole: list[tuple[Tensor, Tensor]] = []
        for number, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
            if not isinstance(gradient, Product):
                whole.append((parameter, gradient))
            elif isinstance(rate, Tensor):
                parameter.baddbmm_(gradient.left * -rate, gradient.right)
            elif self._same_bits(number, gradient):
                buffer = self._buffer(parameter)
                for weight, left, right in zip(parameter, *gradient, strict=True):
                    weight.add_(torch.mm(left, right, out=buffer), alpha=-rate)
            else:
                whole.append((parameter, gradient.left @ gradient.right))
        descend([parameter for parameter, _ in whole], [gradient for _, gradient in whole], rate)

    def _same_bits(self, number: int, product: Product) -> bool:
        if number not in self.by_run:
            # In the layout of the product, but with no zeros, which would hide a rounding.
            left, right = ((factor + 0.7).cos() for factor in product)
            runs = zip(left, right, strict=True)
            by_run = torch.stack([torch.mm(*factors) for factors in runs])
            self.by_run[number] = torch.equal(left @ right, by_run)
        return self.by_run[number]

    def _buffer(self, parameter: Tensor) -> Tensor:
        shape = parameter.shape[1:]
        if shape not in self.buffers:
            self.buffers[shape] = parameter.new_empty(shape)
        return self.buffers[shape]
