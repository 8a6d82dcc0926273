"""Adam as in torch.optim.Adam, with the same betas and epsilon; weight decay is L2."""

from collections.abc import Mapping
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from flatlab.core.schema import Strict, means
from flatlab.lab.train.optimizers._update import by_run

BETAS = (0.9, 0.999)
EPSILON = 1e-8


class Options(Strict, frozen=True):
    weight_decay: Annotated[float, means("L2 penalty added to the gradient", ge=0)] = 0.0


class Stacked:
    """The update of stacked parameters.

    Its state is the first moments, the second moments, and the number of steps that each run has
    taken, on which the bias correction of the moments depends.
    """

    def __init__(self, parameters: list[Tensor], training: Mapping[str, Any], runs: int) -> None:
        self.parameters, self.decay = parameters, training["weight_decay"]
        self.first = [torch.zeros_like(p) for p in parameters]
        self.second = [torch.zeros_like(p) for p in parameters]
        self.steps = torch.zeros(runs, dtype=torch.float64, device=parameters[0].device)
        self.state = [*self.first, *self.second, self.steps]

    def step(self, gradients: list[Tensor], rate: float | Tensor) -> None:
        if self.decay:
            torch._foreach_add_(gradients, self.parameters, alpha=self.decay)
        self.steps.add_(1)
        torch._foreach_lerp_(self.first, gradients, 1 - BETAS[0])
        torch._foreach_mul_(self.second, BETAS[1])
        torch._foreach_addcmul_(self.second, gradients, gradients, 1 - BETAS[1])
        rates = (rate / (1 - BETAS[0] ** self.steps)).to(self.parameters[0])
        spread = (1 - BETAS[1] ** self.steps).rsqrt().to(self.parameters[0])
        roots = [by_run(root, spread) for root in torch._foreach_sqrt(self.second)]
        torch._foreach_add_(roots, EPSILON)
        moves = torch._foreach_div(self.first, roots)
        torch._foreach_sub_(self.parameters, [by_run(move, rates) for move in moves])


def reference(parameters: list[nn.Parameter], training: Mapping[str, Any]) -> Optimizer:
    # One parameter after the other, which rounds the same on every machine.
    options = {"betas": BETAS, "eps": EPSILON, "weight_decay": training["weight_decay"]}
    return torch.optim.Adam(parameters, lr=0.0, foreach=False, **options)


def state_of(update: Optimizer, parameter: nn.Parameter) -> list[Tensor]:
    state = update.state[parameter]
    if not state:
        first, second = torch.zeros_like(parameter), torch.zeros_like(parameter)
        state |= {"step": torch.tensor(0.0), "exp_avg": first, "exp_avg_sq": second}
    return [state[name] for name in ("step", "exp_avg", "exp_avg_sq")]
