"""How much a loss changes with the weights: any change, random relative ones, and their limit.

Frozen parameters and buffers are not perturbed. The network itself is never written to.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from tqdm import tqdm

from flatlab.derivatives.ascent import Found
from flatlab.derivatives.record import generic_squares
from flatlab.losses import Loss, half_mse

LOSS = half_mse.Loss()
"""The loss of chen2026."""


Transform = Callable[[Tensor], Tensor]
"""What is done to outputs (samples, N) before the loss."""


class BatchLoss:
    """The loss of one batch as a function of changes of all trainable parameters as one vector.

    inputs, targets: (samples, ...), (samples, N).  size: samples at a time.  The loss is computed
    in float64.
    """

    def __init__(
        self, model: nn.Module, inputs: Tensor, targets: Tensor, loss: Loss, size: int | None = None
    ) -> None:
        size = size or len(inputs)
        self._chunks = list(zip(inputs.split(size), targets.double().split(size), strict=True))
        self._model, self._loss, self._share = model, loss, loss.share(1, len(inputs))
        theta = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
        self._shapes = {name: p.shape for name, p in theta.items()}
        self.weights = torch.cat([p.flatten() for p in theta.values()])

    def values(self, change: Tensor, transforms: Sequence[Transform]) -> Tensor:
        """The loss at w + change for each transform of the same outputs: (transforms,)."""
        with torch.no_grad():
            return torch.stack(list(self._parts(self.weights + change, transforms))).sum(0)

    def found(self, change: Tensor, transform: Transform) -> Found:
        """The loss at w + change, and what computes its gradient from the graph that is kept."""
        point = (self.weights + change).requires_grad_()
        parts = self._parts(point, [transform])
        if len(self._chunks) == 1:
            (kept,) = next(parts)
            return kept.item(), lambda: torch.autograd.grad(kept, point)[0]
        value, gradient = 0.0, torch.zeros_like(self.weights)
        for (part,) in parts:
            value += part.item()
            gradient += torch.autograd.grad(part, point)[0]
        return value, lambda: gradient

    def _parts(self, point: Tensor, transforms: Sequence[Transform]) -> Iterator[Tensor]:
        """What each chunk contributes, (transforms,) each."""
        for x, y in self._chunks:
            pieces = point.split([shape.numel() for shape in self._shapes.values()])
            named = zip(self._shapes.items(), pieces, strict=True)
            theta = {name: piece.view(shape) for (name, shape), piece in named}
            outputs = functional_call(self._model, theta, (x.clone(),)).double()
            losses = [self._loss.values(change(outputs), y).sum() for change in transforms]
            yield torch.stack(losses) * self._share


def laid_out(model: nn.Module, inputs: Tensor) -> Tensor:
    """The inputs in the layout in which passes are fastest: images with their channels last.

    That is so in float32 on a CPU. Networks that view feature maps as vectors do not accept it.
    """
    if inputs.ndim != 4 or (inputs.device.type, inputs.dtype) != ("cpu", torch.float32):
        return inputs
    images = inputs.contiguous(memory_format=torch.channels_last)
    try:
        with torch.no_grad():
            model(images[:2].clone())
    except RuntimeError:
        return inputs
    return images


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

    Each entry is the mean over d and -d, which removes odd orders in d, the first in particular.
    Weights are multiplied by 1 + rho e. Two networks of the same shapes get the same e from a seed,
    so that a rescaled network has the same values up to rounding; and all samples get the same e,
    so that each draw is made once.  size: samples at a time.
    """
    size = size or len(inputs)
    chunks = list(zip(inputs.split(size), targets.split(size), strict=True))
    theta = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    generator = torch.Generator(inputs.device).manual_seed(seed)

    def losses(parameters: dict[str, Tensor]) -> Tensor:
        pairs = ((functional_call(model, parameters, (x.clone(),)), y) for x, y in chunks)
        return torch.cat([LOSS.values(f.double(), y.double()) for f, y in pairs])

    moved = {name: torch.empty_like(p) for name, p in theta.items()}  # the only copy of weights
    changes = []
    with torch.no_grad():
        unperturbed = losses(theta)
        for _ in tqdm(range(draws), unit="draw", disable=not progress, leave=False):
            for name, p in theta.items():
                moved[name].normal_(0, rho, generator=generator).add_(1).mul_(p)
            above = losses(moved)
            for name, p in theta.items():
                moved[name].neg_().add_(p, alpha=2)
            changes.append((above + losses(moved)) / 2 - unperturbed)
    return torch.stack(changes, 1)


def exact_gauss_newton(model: nn.Module, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """||df/dtheta||_F^2 and sum theta_j^2 ||df/dtheta_j||^2: (samples, 1) each.

    One backward pass for each sample and output.
    """
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    squares = generic_squares(model, inputs, names).values()
    plain, adaptive = (torch.stack(parts).double().sum(0) for parts in zip(*squares, strict=True))
    return plain[:, None], adaptive[:, None]


def random_gauss_newton(
    model: nn.Module, inputs: Tensor, probes: int, seed: int = 0, size: int | None = None
) -> tuple[Tensor, Tensor]:
    """Unbiased estimates of both sums, averaged over the samples: (1, probes) each.

    With random signs s, one for each sample and output, the expected square of the derivative of
    <s, f> is the sum: one backward pass for all samples and outputs of a chunk.
    """
    generator = torch.Generator(inputs.device).manual_seed(seed)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    sums = inputs.new_zeros(2, probes, dtype=torch.float64)
    for chunk in inputs.split(size or len(inputs)):
        outputs = model(chunk.clone())
        for number in range(probes):
            signs = torch.randint(2, outputs.shape, generator=generator, device=inputs.device)
            flags = {"retain_graph": number + 1 < probes, "materialize_grads": True}
            along = (2 * signs - 1).to(outputs)
            gradients = torch.autograd.grad(outputs, parameters, along, **flags)
            for gradient, parameter in zip(gradients, parameters, strict=True):
                sums[0, number] += gradient.square().sum(dtype=torch.float64)
                weighted = (gradient * parameter.detach()).square()
                sums[1, number] += weighted.sum(dtype=torch.float64)
    plain, adaptive = sums / len(inputs)
    return plain[None], adaptive[None]
