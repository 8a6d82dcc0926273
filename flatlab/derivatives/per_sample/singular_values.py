"""Singular values of Jacobians with few rows, from their Gram matrices in float64."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

CONDITION = 1e3
"""sigma_1/sigma_N up to which the Gram matrix gives ln sigma to 1e-10 (error: eps x its square)."""

BLOCK_BYTES = {"cpu": 2**22, "cuda": 2**28}
"""Sizes of blocks of intermediate products, which should stay in the cache of a CPU."""

ROWS = {"cpu": 2**62, "cuda": 256}
"""Of a QR decomposition: up to 256, a GPU takes many at a time; beyond, one after the other."""


def block(tensor: Tensor, numbers: int) -> int:
    """How many items of `numbers` numbers, of the tensor's type, fit into a block; at least one."""
    size = BLOCK_BYTES.get(tensor.device.type, BLOCK_BYTES["cuda"])
    return max(1, size // (numbers * tensor.element_size()))


def products(jacobians: Tensor, x: Tensor, gram: bool) -> tuple[Tensor, Tensor]:
    """J J^T, (samples, N, N), and ||J diag(x)||_F^2, (samples,), in float64.

    jacobians: (samples, N, M).
    x: (samples, M).
    gram: whether to compute J J^T, else it has no samples.
    """
    samples, outputs, width = jacobians.shape
    grams = jacobians.new_empty(samples if gram else 0, outputs, outputs, dtype=torch.float64)
    scaled = grams.new_zeros(samples)
    step = min(samples, block(jacobians, 2 * outputs * width))
    buffer = grams.new_empty(step, outputs, width)
    for start in range(0, samples, step):
        here = slice(start, start + step)
        double = buffer[: len(jacobians[here])].copy_(jacobians[here])
        if gram:
            torch.bmm(double, double.mT, out=grams[here])
        double.mul_(x[here, None])
        scaled[here] = torch.linalg.vector_norm(double, dim=(1, 2)).square()
    return grams, scaled


def singular_values(grams: Tensor) -> Tensor:
    """From J J^T, descending: (..., N, N) -> (..., N); NaN if a matrix is not finite."""
    return of_finite(grams, lambda g: torch.linalg.eigvalsh(g).flip(-1).clamp(min=0).sqrt())


def _triangle(tall: Tensor) -> Tensor:
    """R of a QR decomposition, which has the same singular values: (..., m, n) -> (..., n, n).

    For m >= n. In parts of `ROWS` rows, whose triangles are decomposed again.
    """
    rows, columns = ROWS.get(tall.device.type, ROWS["cuda"]), tall.shape[-1]
    while tall.shape[-2] > rows >= 2 * columns:  # halved at least, up to one part
        parts = nn.functional.pad(tall, (0, 0, 0, -tall.shape[-2] % rows))
        parts = parts.unflatten(-2, (-1, rows))
        tall = torch.linalg.qr(parts, mode="r").R.flatten(-3, -2)
    return torch.linalg.qr(tall, mode="r").R


def of_finite(matrices: Tensor, values_of: Callable[[Tensor], Tensor]) -> Tensor:
    """Values of matrices; NaN if a matrix is not finite, which LAPACK would refuse."""
    finite = matrices.isfinite().flatten(-2).all(-1)
    values = values_of(torch.where(finite[..., None, None], matrices, 0.0))
    return torch.where(finite[..., None], values, torch.nan)


def refine(singular: Tensor, jacobians: Tensor) -> Tensor:
    """Replace the values of ill-conditioned Gram matrices by those of J itself.

    singular: (samples, N).  jacobians: (samples, N, M).
    """
    poor = singular[:, -1] * CONDITION < singular[:, 0]
    if not poor.any():
        return singular
    singular = singular.clone()
    singular[poor] = exact_values(jacobians[poor])
    return singular


def exact_values(jacobians: Tensor) -> Tensor:
    """Singular values, descending, from the matrices themselves: (..., N, M) -> (..., N).

    If N > M the remaining values are zero. From the triangle of a QR decomposition, which
    is quicker than from J.
    """
    matrices = jacobians.double()
    matrices = matrices if matrices.shape[-2] > matrices.shape[-1] else matrices.mT
    values = of_finite(matrices, lambda tall: torch.linalg.svdvals(_triangle(tall)))
    rest = jacobians.shape[-2] - values.shape[-1]
    return torch.cat([values, (values[..., :1] * 0).expand(*values.shape[:-1], rest)], -1)
