"""Products with the Hessian of a mean loss and with its Gauss-Newton matrix, without the matrices.

With f the outputs of a network, l the loss of one sample and means over the samples, the Hessian is
H = d^2 mean l(f(x)) / dtheta^2, and its Gauss-Newton part G = mean J^T (d^2 l / df^2) J, where
J = df/dtheta; for a loss that is a sum, the means are sums. theta is the vector of all parameters
that require gradients. The largest eigenvalue of such a map follows from its products.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import torch
from torch import Tensor, nn

from flatlab.derivatives.probe import run
from flatlab.losses._base import Loss

Product = Callable[[Tensor], Tensor]
Batches = Sequence[tuple[Tensor, Tensor]]

RESIDUAL = 1e-4
"""Where the iteration stops, relative to the eigenvalue. The error is at most that, and about its
square if the next eigenvalue is not close."""
FEWEST, MOST = 8, 200
"""Products. The residual can be small at a smaller eigenvalue at first, because a random start has
only a small component along the largest one."""


@contextmanager
def batch_norm(model: nn.Module, mode: str) -> Iterator[None]:
    """Let batch norm use the statistics of the batch (`train`) or the running ones (`eval`)."""
    with ExitStack() as undo:
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                undo.callback(module.train, module.training)
                module.train(mode == "train")
        yield


def trainable(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def hessian_product(model: nn.Module, batches: Batches, loss: Loss) -> Product:
    """v -> H v, by differentiating the gradient once more.

    batches: inputs (samples, ...) and targets (samples, N); weighted by their numbers of samples.
    """
    theta, samples = trainable(model), sum(len(inputs) for inputs, _ in batches)

    def gradient(inputs: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        part = loss.values(run(model, inputs), targets).sum() * loss.share(1, samples)
        return torch.autograd.grad(part, theta, create_graph=True, materialize_grads=True)

    def product(kept: tuple[Tensor, ...], vector: Tensor) -> Tensor:
        return _pulled_back(kept, theta, _split(vector, theta))

    return _summed(gradient, product, batches)


def gauss_newton_product(model: nn.Module, batches: Batches, loss: Loss) -> Product:
    """v -> G v, by J v, the second derivative of the loss, and J^T."""
    theta, samples = trainable(model), sum(len(inputs) for inputs, _ in batches)

    def linearized(inputs: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        outputs = run(model, inputs)
        weights = torch.zeros_like(outputs, requires_grad=True)
        flags = {"create_graph": True, "materialize_grads": True}
        return outputs, weights, *torch.autograd.grad(outputs, theta, weights, **flags)

    def product(kept: tuple[Tensor, ...], vector: Tensor) -> Tensor:
        outputs, weights, *back = kept
        # J^T w is linear in w, and its derivative with respect to w along v is J v
        forward = _pulled_back(back, [weights], _split(vector, theta)).view_as(outputs)
        curved = loss.hessian_product(outputs.detach(), forward) * loss.share(1, samples)
        return _pulled_back([outputs], theta, [curved])

    return _summed(linearized, product, batches)


def _summed(
    prepare: Callable[[Tensor, Tensor], tuple[Tensor, ...]],
    product: Callable[[tuple[Tensor, ...], Tensor], Tensor],
    batches: Batches,
) -> Product:
    """The sum over the batches; the graph of a single batch is kept from product to product."""
    kept = prepare(*batches[0]) if len(batches) == 1 else None

    def total(vector: Tensor) -> Tensor:
        if kept is not None:
            return product(kept, vector)
        parts = (product(prepare(*batch), vector) for batch in batches)
        return sum(parts, start=torch.zeros_like(vector))

    return total


def _pulled_back(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], vectors: Sequence[Tensor]
) -> Tensor:
    """The derivative of <outputs, vectors> with respect to the inputs, as one vector."""
    moving = [(o, v) for o, v in zip(outputs, vectors, strict=True) if o.requires_grad]
    if not moving:
        return torch.cat([torch.zeros_like(x).flatten() for x in inputs])
    along, weights = zip(*moving, strict=True)
    parts = torch.autograd.grad(along, inputs, weights, retain_graph=True, materialize_grads=True)
    return torch.cat([part.flatten() for part in parts])


def _split(vector: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    parts = vector.split([tensor.numel() for tensor in like])
    return [part.view_as(tensor) for part, tensor in zip(parts, like, strict=True)]


@dataclass(frozen=True)
class Largest:
    """value: the algebraically largest eigenvalue, not the one with the largest modulus.

    residual: ||A v - value v|| / |value| for the unit vector v that was found, `vector`, (n).
    products: how many were computed.  converged: whether the residual is small enough or the space
    is exhausted.
    """

    value: float
    residual: float
    products: int
    converged: bool
    vector: Tensor


def largest_eigenvalue(
    product: Product, start: Tensor, residual: float = RESIDUAL, most: int = MOST
) -> Largest:
    """By Lanczos' method with full reorthogonalization; NaN if a product is not finite.

    product: v -> A v, A symmetric.  start: (n), not orthogonal to the eigenvector.
    """
    most = min(most, len(start))
    vectors = start.new_empty(min(FEWEST, most), len(start))  # as rows; as many as may be needed
    vectors[0] = start / torch.linalg.vector_norm(start)
    diagonal: list[float] = []
    beside: list[float] = []
    step = 0
    while True:
        step += 1
        known = vectors[:step]
        image = product(known[-1]).clone()
        diagonal.append(float(image @ known[-1]))
        for _ in range(2):  # the second pass removes what rounding has left
            image -= known.mT @ (known @ image)
        rest = float(torch.linalg.vector_norm(image))
        if not math.isfinite(diagonal[-1] + rest):
            return Largest(math.nan, math.nan, step, False, torch.full_like(start, math.nan))
        values, rotation = scipy.linalg.eigh_tridiagonal(np.array(diagonal), np.array(beside))
        value, left = float(values[-1]), rest * abs(float(rotation[-1, -1]))
        relative = left / abs(value) if value else math.inf
        # Exhausted: the vectors span everything that the map can reach from the start.
        exhausted = rest <= 10 * torch.finfo(start.dtype).eps * np.abs(values).max()
        converged = bool(exhausted or (step >= FEWEST and relative <= residual))
        if converged or step == most:
            weights = torch.from_numpy(rotation[:, -1]).to(start)
            vector = known.mT @ weights
            return Largest(value, relative if left else 0.0, step, converged, vector)
        beside.append(rest)
        if step == len(vectors):
            vectors = start.new_empty(min(2 * step, most), len(start))
            vectors[:step] = known
        vectors[step] = image / rest
