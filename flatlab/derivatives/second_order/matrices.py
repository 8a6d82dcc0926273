"""Multiply vectors with the Hessian, Gauss-Newton and Fisher matrices.

The cheapest implementation that is exact for the network is chosen. Some matrices have few rows R
with A = R^T R. With g the gradient of the loss of one sample, the empirical Fisher matrix is the
mean of g g^T, and with C C^T = d^2 l/df^2 the Gauss-Newton matrix is the mean of (J^T C) (J^T C)^T:
one row for each sample, or for each sample and column of C. The eigenvalues of A that are not 0
are those of the small matrix R R^T, each as often, and the eigenvectors follow from its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from flatlab.core.errors import MeasureError
from flatlab.derivatives.per_sample.probe import run
from flatlab.derivatives.second_order.hessian_products import (
    Batches,
    Product,
    empirical_fisher_product,
    gauss_newton_product,
    hessian_product,
    trainable,
)
from flatlab.derivatives.second_order.lanczos import Eigenpairs, extreme_eigenvalues, small
from flatlab.derivatives.second_order.second_pass import with_second_pass
from flatlab.losses._base import ROUNDING, Loss

PRODUCTS: dict[str, Callable[[nn.Module, Batches, Loss, float | None], Product]] = {
    "hessian": hessian_product,
    "gauss-newton": gauss_newton_product,
    "fisher": gauss_newton_product,
    "empirical-fisher": empirical_fisher_product,
}
TRIED = 16
"""Samples whose products by two ways are compared."""


@dataclass(frozen=True)
class Matrix:
    """A symmetric matrix A.

    product: v -> A v.
    rows: R with A = R^T R, where they are few; else None.
    """

    product: Product
    rows: Tensor | None = None

    def eigenvalues(
        self, start: Tensor, largest: int, smallest: int = 0, residual: float = 1e-4, **how: Any
    ) -> Eigenpairs:
        """Those of `extreme_eigenvalues`, with its arguments; from R R^T where that does."""
        rows = None if smallest else self.rows
        pairs = None if rows is None else largest_of_rows(rows, largest, residual)
        return pairs or extreme_eigenvalues(
            self.product, start, largest, smallest, residual=residual, **how
        )


def matrix_of(
    name: str,
    model: nn.Module,
    batches: Batches,
    loss: Loss,
    step: float | None = None,
    alone: bool = True,
) -> Matrix:
    """One of `PRODUCTS`, whose function takes the other arguments.

    alone: the network maps each sample on its own.

    By few rows, or by the cheap second pass, where products of some samples are torch's own.
    """

    def make(chosen: Batches) -> Product:
        return PRODUCTS[name](model, chosen, loss, step)

    if step is not None:  # differences need no second backward pass
        return Matrix(make(batches))
    some = [(inputs[:TRIED], targets[:TRIED]) for inputs, targets in batches[:1]]
    like = torch.cat([parameter.detach().flatten() for parameter in trainable(model)])
    vector = torch.randn(len(like), generator=torch.Generator().manual_seed(0)).to(like)
    expected = make(some)(vector)

    def right(make_product: Callable[[Batches], Product | None]) -> bool:
        try:
            product = make_product(some)
            off = vector.new_tensor(torch.inf) if product is None else product(vector) - expected
        except (MeasureError, RuntimeError):  # what follows does not take this order of numbers
            return False
        allowed = torch.finfo(like.dtype).eps ** 0.5 * torch.linalg.vector_norm(expected)
        return bool(torch.linalg.vector_norm(off) <= allowed)

    def by_rows(chosen: Batches) -> Product | None:
        rows = gradient_rows(name, model, chosen, loss)
        return None if rows is None else product_of_rows(rows)

    def cheap(chosen: Batches) -> Product:
        return with_second_pass(lambda: make(chosen), name != "hessian")

    def by_pixel(chosen: Batches) -> Product:
        """The channels of a pixel side by side, for which CPU convolutions are faster."""
        order: Any = {"memory_format": torch.channels_last}
        return cheap([(inputs.contiguous(**order), targets) for inputs, targets in chosen])

    if alone and are_few(name, model, batches, loss) and right(by_rows):
        rows = gradient_rows(name, model, batches, loss)
        if rows is not None:
            return Matrix(product_of_rows(rows), rows)
    ways = [by_pixel, cheap] if _faster_by_pixel(model, batches[0][0]) else [cheap]
    return Matrix(next((way for way in ways if right(way)), make)(batches))


def _faster_by_pixel(model: nn.Module, inputs: Tensor) -> bool:
    """The derivatives of max pooling lose this order, which is slower than to do without."""
    images = inputs.ndim == 4 and inputs.device.type == "cpu"
    return images and not any(isinstance(module, nn.MaxPool2d) for module in model.modules())


BYTES = 2**28
"""Of all rows, at most."""
PAYING = 20
"""Rows are used where they cost no more than so many products, of which others need more."""


def are_few(matrix: str, model: nn.Module, batches: Batches, loss: Loss) -> bool:
    """Whether the rows fit, and R R^T takes no more operations than `PAYING` products.

    The arguments are those of `gradient_rows`.
    """
    if matrix == "hessian":
        return False
    theta, samples = trainable(model), sum(len(inputs) for inputs, _ in batches)
    numbers = sum(parameter.numel() for parameter in theta)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        outputs = run(model, batches[0][0][:2])
    forward = counter.get_total_flops() / len(outputs)
    rows = samples * (1 if matrix == "empirical-fisher" else outputs.shape[1])
    if rows * numbers * theta[0].element_size() > BYTES:
        return False
    return 2 * rows**2 * numbers + 3 * rows * forward <= PAYING * 4 * samples * forward


def gradient_rows(matrix: str, model: nn.Module, batches: Batches, loss: Loss) -> Tensor | None:
    """R (rows, parameters); None where torch cannot vectorize the network, or no R is real.

    matrix: `empirical-fisher`, `gauss-newton` or `fisher`.
    """
    rows, samples = [], sum(len(inputs) for inputs, _ in batches)
    for inputs, targets in batches:
        with torch.no_grad():
            outputs = run(model, inputs)
        weights = _weights(matrix, outputs, targets, loss)
        if weights is None:
            return None
        try:
            rows += [_pulled_back(model, inputs, column) for column in weights.unbind(-1)]
        except RuntimeError:  # of torch, where a network does what cannot be vectorized
            return None
    return torch.cat(rows).mul_(loss.share(1, samples) ** 0.5)


def product_of_rows(rows: Tensor) -> Product:
    """v -> R^T R v."""
    return lambda vector: rows.mT @ (rows @ vector)


def largest_of_rows(rows: Tensor, count: int, residual: float) -> Eigenpairs | None:
    """The largest eigenvalues of R^T R; None where some are 0, or not to the residual.

    rows: R.
    count: of the eigenvalues.
    residual: of each, relative to it, as for `extreme_eigenvalues`.
    """
    values, vectors = torch.linalg.eigh((rows @ rows.mT).cpu().double())
    if len(values) < count or values[-count] <= torch.finfo(rows.dtype).eps * values[-1]:
        return None
    found = vectors[:, -count:].flip(1).mT.to(rows) @ rows
    found /= torch.linalg.vector_norm(found, dim=1, keepdim=True)
    images = found @ rows.mT @ rows
    quotients = (found * images).sum(1, keepdim=True)
    rest = torch.linalg.vector_norm(images.addcmul_(quotients, found, value=-1), dim=1)
    largest, residuals = (each.cpu().double().numpy() for each in (quotients[:, 0], rest))
    converged = small(largest, residuals, residual)
    return Eigenpairs(largest, residuals, converged, found, 0) if converged.all() else None


def _weights(matrix: str, outputs: Tensor, targets: Tensor, loss: Loss) -> Tensor | None:
    """What the rows are J^T times of: (samples, outputs, rows of a sample); None if not real."""
    if matrix == "empirical-fisher":
        free = outputs.detach().requires_grad_()
        with torch.enable_grad():
            values = loss.values(free, targets).sum()
        return torch.autograd.grad(values, free)[0][..., None]
    unit = torch.eye(outputs.shape[1]).to(outputs)
    columns = [loss.curved(outputs, each.expand_as(outputs), targets) for each in unit]
    values, vectors = torch.linalg.eigh(torch.stack(columns, 2).double())
    if not bool((values >= -ROUNDING * (1 + values.max())).all()):
        return None
    rounding = 8 * outputs.shape[1] * torch.finfo(outputs.dtype).eps * values.max()
    needed = (values > rounding).any(0)
    return (vectors * values.clamp(min=0).sqrt()[:, None])[..., needed].to(outputs)


def _pulled_back(model: nn.Module, inputs: Tensor, weights: Tensor) -> Tensor:
    """J^T w of each sample: (samples, parameters).  weights: w, (samples, outputs)."""
    theta = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def along(theta: dict[str, Tensor], x: Tensor, w: Tensor) -> Tensor:
        return torch.func.functional_call(model, theta, (x[None].clone(),))[0] @ w

    gradients = torch.func.vmap(torch.func.grad(along), (None, 0, 0))(theta, inputs, weights)
    return torch.cat([gradients[name].flatten(1) for name in theta], 1)
