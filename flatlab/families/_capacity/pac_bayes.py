"""How much noise on the parameters a classification endures."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from flatlab.core.forecast import Forecast

DROP, TOLERANCE, LARGEST, STEPS = 0.1, 0.01, 2.0, 15
"""Of the accuracy, how far from it the search may end, where it begins, and its most steps."""


class NoiseTolerance(NamedTuple):
    """How much noise on the parameters a classification endures.

    sigma: standard deviation of the noise.
    drop: of the mean accuracy at sigma.
    converged: whether that is close to `DROP`.
    """

    sigma: float
    drop: float
    converged: bool


@torch.no_grad()
def noise_tolerance(
    model: nn.Module,
    batches: Sequence[tuple[Tensor, Tensor]],
    draws: int = 3,
    seed: int = 0,
    progress: bool = False,
) -> NoiseTolerance:
    """The deviation of normal noise on all trainable parameters that lowers the accuracy by 0.1.

    By bisection on [0, 2]. The network is never written to.

    batches: inputs, and classes (samples,), or (samples, positions) with -1 where there is none.
    draws: of the noise, over which accuracies are averaged; every step has the same draws, times
        its deviation, in every precision.
    seed: of the noise.
    progress: show a bar.
    """
    theta = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    device = next(iter(theta.values())).device

    def accuracy(parameters: dict[str, Tensor]) -> float:
        right = torch.zeros((), device=device)
        for x, y in batches:
            outputs = functional_call(model, parameters, (x.clone(),))
            right += outputs.unflatten(1, (*y.shape[1:], -1)).argmax(-1).eq(y).sum()
            forecast.tick()
        return float(right / count)

    def accuracy_with(deviation: float, draw: int) -> float:
        generator = torch.Generator(device).manual_seed(1_000_003 * seed + draw)
        moved = {}
        for name, p in theta.items():
            noise = torch.randn(p.shape, generator=generator, dtype=torch.float32, device=device)
            moved[name] = noise.to(p).mul_(deviation).add_(p)
        return accuracy(moved)

    count = sum(int((classes >= 0).sum()) for _, classes in batches)
    low, high = 0.0, LARGEST
    with Forecast("noise tolerance", (1 + STEPS * draws) * len(batches), progress) as forecast:
        without_noise = accuracy(theta)
        for _ in range(STEPS):
            sigma = (low + high) / 2
            mean = sum(accuracy_with(sigma, draw) for draw in range(draws)) / draws
            drop = without_noise - mean
            if abs(drop - DROP) < TOLERANCE:
                return NoiseTolerance(sigma, drop, True)
            low, high = (low, sigma) if drop > DROP else (sigma, high)
    return NoiseTolerance(sigma, drop, False)
