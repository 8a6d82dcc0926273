"""How much a loss changes with the weights: random relative perturbations, and their limit.

Frozen parameters and buffers are not perturbed. The network itself is never written to.
"""

import torch
from torch import Tensor, nn
from torch.func import functional_call

from flatlab.core.progress import ProgressBar
from flatlab.derivatives.per_sample.hooks import generic_squares, outputs_at_a_time
from flatlab.derivatives.per_sample.probe import run
from flatlab.losses import half_mse

LOSS = half_mse.Loss()
"""The loss of chen2026."""


def loss_changes(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    rho: float = 0.1,
    draws: int = 50,
    seed: int = 0,
    size: int | None = None,
    progress: bool = False,
) -> Tensor:
    """L(theta + d) - L(theta) with d ~ N(0, rho^2 diag(theta^2)): (samples, draws), float64.

    rho: size of the changes, relative to the weights.
    draws: of d.
    seed: of the draws.

    Each entry is the mean over d and -d, which removes odd orders in d, the first in particular.
    Weights are multiplied by 1 + rho e. Two networks of the same shapes get the same e from a seed,
    so that a rescaled network has the same values up to rounding; and all samples get the same e,
    so that each draw is made once.
    """
    size = size or len(inputs)
    chunks = list(zip(inputs.split(size), targets.split(size), strict=True))
    theta = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    generator = torch.Generator(inputs.device).manual_seed(seed)

    def losses(parameters: dict[str, Tensor]) -> Tensor:
        values = []
        for x, y in chunks:
            outputs = functional_call(model, parameters, (x.clone(),))
            values.append(LOSS.values(outputs.double(), y.double()))
            forecast.tick()
        return torch.cat(values)

    moved = {name: torch.empty_like(p) for name, p in theta.items()}  # the only copy of weights
    changes = []
    evaluations = (1 + 2 * draws) * len(chunks)
    with torch.no_grad(), ProgressBar(f"{draws} weight changes", evaluations, progress) as forecast:
        unperturbed = losses(theta)
        for _ in range(draws):
            for name, p in theta.items():
                moved[name].normal_(0, rho, generator=generator).add_(1).mul_(p)
            above = losses(moved)
            for name, p in theta.items():
                moved[name].neg_().add_(p, alpha=2)
            changes.append((above + losses(moved)) / 2 - unperturbed)
    return torch.stack(changes, 1)


def exact_gauss_newton(
    model: nn.Module, inputs: Tensor, outputs: int, progress: bool = False
) -> tuple[Tensor, Tensor]:
    """||df/dtheta||_F^2 and sum theta_j^2 ||df/dtheta_j||^2: (samples, 1) each.

    One backward pass for each sample and output.
    """
    theta = {name: p for name, p in model.named_parameters() if p.requires_grad}
    steps = len(inputs) * -(-outputs // outputs_at_a_time(theta.values()))
    with ProgressBar("exact traces", steps, progress) as forecast:
        squares = generic_squares(model, inputs, [*theta], tick=forecast.tick).values()
    plain, adaptive = (torch.stack(parts).double().sum(0) for parts in zip(*squares, strict=True))
    return plain[:, None], adaptive[:, None]


def random_gauss_newton(
    model: nn.Module,
    inputs: Tensor,
    probes: int,
    seed: int = 0,
    size: int | None = None,
    progress: bool = False,
) -> tuple[Tensor, Tensor]:
    """Unbiased estimates of both sums, averaged over the samples: (1, probes) each.

    With random signs s, one for each sample and output, the expected square of the derivative of
    <s, f> is the sum: one backward pass for all samples and outputs of a chunk.
    """
    generator = torch.Generator().manual_seed(seed)  # the same signs on every device
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    sums = inputs.new_zeros(2, probes, dtype=torch.float64)
    chunks = inputs.split(size or len(inputs))
    with ProgressBar("random traces", probes * len(chunks), progress) as forecast:
        for outputs in (run(model, chunk) for chunk in chunks):
            for number in range(probes):
                signs = torch.randint(2, outputs.shape, generator=generator)
                flags = {"retain_graph": number + 1 < probes, "materialize_grads": True}
                along = (2 * signs - 1).to(outputs)
                gradients = torch.autograd.grad(outputs, parameters, along, **flags)
                for gradient, parameter in zip(gradients, parameters, strict=True):
                    sums[0, number] += gradient.square().sum(dtype=torch.float64)
                    weighted = (gradient * parameter.detach()).square()
                    sums[1, number] += weighted.sum(dtype=torch.float64)
                forecast.tick()
    plain, adaptive = sums / len(inputs)
    return plain[None], adaptive[None]
