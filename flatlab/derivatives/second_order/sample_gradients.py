"""Matrices of few rows: R with A = R^T R, A an empirical Fisher or a Gauss-Newton matrix.

With g the gradient of the loss of one sample, the empirical Fisher matrix is the mean of g g^T, and
with C C^T = d^2 l/df^2 the Gauss-Newton matrix is the mean of (J^T C) (J^T C)^T: one row for each
sample, or for each sample and column of C. The eigenvalues of A that are not 0 are those of the
small matrix R R^T, each as often, and the eigenvectors follow from its own.
"""

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from flatlab.derivatives.per_sample.probe import run
from flatlab.derivatives.second_order.hessian_products import Batches, Product, trainable
from flatlab.derivatives.second_order.krylov import Eigenpairs, small
from flatlab.losses._base import ROUNDING, Loss

BYTES = 2**28
"""Of all rows, at most."""
PRODUCTS = 20
"""Rows are used where they cost no more than so many products, of which others need more."""


def are_few(matrix: str, model: nn.Module, batches: Batches, loss: Loss) -> bool:
    """Whether the rows fit, and R R^T takes no more operations than `PRODUCTS` products.

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
    return 2 * rows**2 * numbers + 3 * rows * forward <= PRODUCTS * 4 * samples * forward


def gradient_rows(matrix: str, model: nn.Module, batches: Batches, loss: Loss) -> Tensor | None:
    """R (rows, parameters); None where torch cannot vectorize the network, or no R is real.

    matrix: `empirical-fisher`, `gauss-newton` or `fisher`.
    model: the network, which maps each sample on its own.
    batches: inputs (samples, ...) and targets (samples, N).
    loss: of a sample.
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
    names = {id(parameter) for parameter in trainable(model)}
    theta = {name: p.detach() for name, p in model.named_parameters() if id(p) in names}

    def along(theta: dict[str, Tensor], x: Tensor, w: Tensor) -> Tensor:
        return torch.func.functional_call(model, theta, (x[None],))[0] @ w

    gradients = torch.func.vmap(torch.func.grad(along), (None, 0, 0))(theta, inputs, weights)
    return torch.cat([gradients[name].flatten(1) for name in theta], 1)
