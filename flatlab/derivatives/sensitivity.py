"""How much outputs can change with the input: ||J||_2 of each sample without forming J.

For networks with many outputs and inputs, where the Gram matrix of J is out of reach. Two ways: a
Krylov iteration, which says how far it is from the norm, and the ascent of chen2026, whose slope of
a secant is another quantity and can exceed the norm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel

from flatlab.derivatives.guard import MeasureError

Function = Callable[[Tensor], Tensor]
GRAPH_BYTES = {"cpu": 2**30, "cuda": 2**34}
"""What the graphs of the samples that are treated at a time may hold."""
ROUNDING = 8.0
"""Norms below so many units of rounding, relative to the largest, are zero."""


class Jacobian:
    """J = df/dx of each sample as two linear maps, on graphs that are built once.

    function: (samples, ...) -> (samples, N), each row of its own sample.  x: (samples, ...).
    J v is the derivative of u -> J^T u, which is linear: a second backward pass, which operations
    have more often than a forward derivative, and which costs no new evaluation of f.
    """

    def __init__(self, function: Function, x: Tensor) -> None:
        self.x = x.detach().requires_grad_()
        with sdpa_kernel(SDPBackend.MATH):  # fused attention has no second derivative
            self.outputs = function(self.x.clone())  # f may change its argument in place
            self.dual = torch.zeros_like(self.outputs, requires_grad=True)
            try:
                (pulled,) = torch.autograd.grad(
                    self.outputs, self.x, self.dual, create_graph=True, materialize_grads=True
                )
            except RuntimeError as error:
                raise MeasureError(f"no derivative with respect to the inputs: {error}") from None
        self.pulled = pulled

    def transposed_times(self, u: Tensor) -> Tensor:
        """J^T u: (samples, N) -> (samples, M)."""
        (back,) = torch.autograd.grad(
            self.outputs, self.x, u, retain_graph=True, materialize_grads=True
        )
        return back.flatten(1)

    def times(self, v: Tensor) -> Tensor:
        """J v: (samples, M) -> (samples, N)."""
        if not self.pulled.requires_grad:  # f does not depend on x
            return torch.zeros_like(self.outputs)
        (forth,) = torch.autograd.grad(
            self.pulled, self.dual, v.view_as(self.x), retain_graph=True, materialize_grads=True
        )
        return forth.detach()


@dataclass(frozen=True)
class Norms:
    """||J||_2 of each sample, (samples,) each.

    values: from below, up to rounding.  residuals: ||J v - sigma u|| / sigma of the singular
    vectors found.  errors: what that says of the value, relative.  iterations: products with J, and
    as many with J^T.  converged: the error is within the tolerance.
    """

    values: Tensor
    residuals: Tensor
    errors: Tensor
    iterations: Tensor
    converged: Tensor


def largest_singular_values(
    jacobian: Jacobian, tolerance: float = 1e-3, most: int = 30, seed: int = 0
) -> Norms:
    """||J||_2 by Golub-Kahan bidiagonalization with full reorthogonalization.

    tolerance: relative, of the norm.  most: iterations at most.  seed: of the start, a random u.
    With r the relative residual and g the relative distance to the second Ritz value the error is
    at most about min(r, r^2/g); since early Ritz values may hide larger ones, the value must also
    have moved by less than the tolerance in the last iteration. Source: Golub and Kahan (1965).
    """
    outputs = jacobian.outputs.detach()
    generator = torch.Generator(outputs.device).manual_seed(seed)
    start = torch.randn(outputs.shape[1], generator=generator, device=outputs.device).to(outputs)
    left = [(start / start.norm()).expand_as(outputs)]  # the same for each sample
    right: list[Tensor] = []
    diagonal: list[Tensor] = []
    below: list[Tensor] = []
    values = outputs.new_zeros(len(outputs), dtype=torch.float64)
    iterations = torch.zeros_like(values)
    converged = torch.zeros_like(values, dtype=torch.bool)
    residuals = errors = torch.full_like(values, torch.nan)
    for _ in range(most):
        a, v = _next(jacobian.transposed_times(left[-1]), right, diagonal + below)
        right.append(v)
        diagonal.append(a)
        b, u = _next(jacobian.times(v), left, diagonal + below)
        left.append(u)
        below.append(b)
        before = values
        values, residuals, errors = _largest(torch.stack(diagonal), torch.stack(below))
        iterations += ~converged
        settled = (values - before).abs() <= tolerance * values
        converged = (errors <= tolerance) & (settled | (residuals == 0))
        if bool((converged | ~values.isfinite()).all()):
            break
    return Norms(values, residuals, errors, iterations, converged)


def _next(new: Tensor, basis: list[Tensor], found: list[Tensor]) -> tuple[Tensor, Tensor]:
    """What is left of vectors beside a basis: its norms in float64 and the unit vectors.

    found: the coefficients so far, which say what is rounding and counts as zero.
    """
    for _ in range(2):  # once is not enough where little is left
        for direction in basis:
            new = new - (direction * new).sum(1, keepdim=True) * direction
    norms = torch.linalg.vector_norm(new, dim=1, dtype=torch.float64)
    if found:
        scale = torch.stack(found).amax(0) * ROUNDING * torch.finfo(new.dtype).eps
        norms = torch.where(norms <= scale, 0.0, norms)
    safe = torch.where(norms == 0, 1.0, norms)
    unit = torch.where(norms[:, None] == 0, 0.0, new / safe[:, None].to(new.dtype))
    return norms, unit


def _largest(diagonal: Tensor, below: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Largest singular values of lower bidiagonal matrices, their residuals and relative errors.

    diagonal, below: (k, samples). The last row, which has only an entry of `below`, raises the
    value towards the norm; the residual is that of the square part, which is not closer to it.
    """
    size, samples = diagonal.shape
    matrix = diagonal.new_zeros(samples, size + 1, size)
    place = torch.arange(size)
    matrix[:, place, place] = diagonal.mT
    matrix[:, place + 1, place] = below.mT
    finite = matrix.isfinite().flatten(1).all(1)
    matrix = torch.where(finite[:, None, None], matrix, 0.0)
    _, square, vectors = torch.linalg.svd(matrix[:, :size])
    largest = torch.linalg.svdvals(matrix)[:, 0]
    safe = torch.where(square[:, 0] > 0, square[:, 0], 1.0)
    residuals = matrix[:, size, size - 1] * vectors[:, 0, -1].abs() / safe
    errors = residuals
    if size > 1:
        gap = (square[:, 0] - square[:, 1]) / safe
        errors = torch.minimum(residuals, residuals.square() / gap.clamp(min=1e-300))
    values = torch.where(finite, largest, torch.nan)
    return values, residuals.where(finite, values), errors.where(finite, values)


def secant_slopes(
    function: Function,
    x: Tensor,
    start: float = 0.1,
    lr: float = 0.1,
    steps: int = 30,
    seed: int = 0,
) -> Tensor:
    """The largest ||f(x + d) - f(x)|| / ||d|| met by ascent over d, of each sample: (samples,).

    start: standard deviation of the d at the start.  lr, steps: of Adam. A slope of a secant: it
    exceeds ||J||_2 where f is steeper elsewhere, and falls short of it where d is long and f bends.
    Source: chen2026 Eq. 58; the numbers are those of the authors' code.
    """
    generator = torch.Generator(x.device).manual_seed(seed)
    first = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
    delta = (start * first).requires_grad_()
    optimizer = torch.optim.Adam([delta], lr=lr, foreach=False)
    with torch.no_grad():
        at_x = function(x.clone())
    best = at_x.new_zeros(len(x), dtype=torch.float64)
    for _ in range(steps):
        slopes = _slopes(function(x + delta) - at_x, delta)
        best = torch.maximum(best, slopes.detach().double())
        (gradient,) = torch.autograd.grad(-slopes.sum(), delta)
        delta.grad = gradient
        optimizer.step()
    with torch.no_grad():
        return torch.maximum(best, _slopes(function(x + delta) - at_x, delta).double())


def _slopes(change: Tensor, delta: Tensor) -> Tensor:
    return torch.linalg.vector_norm(change, dim=1) / torch.linalg.vector_norm(
        delta.flatten(1), dim=1
    )


def samples_at_a_time(function: Function, inputs: Tensor) -> int:
    """So many that what their `Jacobian` keeps stays within `GRAPH_BYTES`, at least one."""
    held: dict[int, int] = {}

    def pack(tensor: Tensor) -> Any:
        storage = tensor.untyped_storage()
        held[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda kept: kept):
        Jacobian(function, inputs[:1])
    size = GRAPH_BYTES[inputs.device.type] // max(sum(held.values()), 1)
    return int(min(max(size, 1), len(inputs)))
