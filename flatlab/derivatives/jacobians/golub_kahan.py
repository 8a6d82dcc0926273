"""How much outputs can change with the input: ||J||_2 of each sample without forming J.

For networks with so many outputs and inputs that the Gram matrix of J is infeasible: a Krylov
iteration, which bounds its own error, and the ascent of chen2026, whose slope of a secant is
another quantity and can exceed the norm.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad

from flatlab.core.errors import MeasureError
from flatlab.derivatives.per_sample.hooks import pulled_back
from flatlab.derivatives.per_sample.memory import fitting
from flatlab.derivatives.second_order.hessian_products import weighted_gradient

Function = Callable[[Tensor], Tensor]
GRAPH_BYTES = {"cpu": 2**30, "cuda": 2**34}
"""Memory for the graphs of the samples that are handled at a time."""
ROUNDING = 8.0
"""Norms of at most this many units of rounding, relative to the largest, count as zero."""

SETTLED = 1e-6
"""Relative changes of a value that may be rounding."""


@dataclass
class PathJacobian:
    """J of each sample in what lies at some edges of a graph, as two linear maps.

    outputs: (samples, N).  edges: whose derivatives J has.  pulled: J^T dual at them.

    J v is the derivative of the linear map u -> J^T u: a second backward pass, which more
    operations support than a forward derivative, and which does not evaluate f again.
    """

    outputs: Tensor
    edges: Sequence[Any]
    dual: Tensor
    pulled: Sequence[Tensor]
    tick: Callable[[], None] = lambda: None

    def transposed_times(self, u: Tensor) -> Tensor:
        """J^T u: (samples, N) -> (samples, M)."""
        self.tick()
        rows = pulled_back(self.outputs, self.edges, u)
        return torch.cat([row.reshape(len(u), -1) for row in rows], 1)

    def times(self, v: Tensor) -> Tensor:
        """J v: (samples, M) -> (samples, N)."""
        self.tick()
        parts = v.split([pulled.numel() // len(v) for pulled in self.pulled], 1)
        weights = [part.view_as(pulled) for part, pulled in zip(parts, self.pulled, strict=True)]
        return weighted_gradient(self.pulled, [self.dual], weights).view_as(self.outputs).detach()


class Jacobian(PathJacobian):
    """J = df/dx of each sample, on graphs that are built once.

    function: (samples, ...) -> (samples, N), each row of its own sample.  x: (samples, ...).
    step: of differences of outputs, relative to |x|, in place of a second backward pass.
    """

    def __init__(self, function: Function, x: Tensor, step: float | None = None) -> None:
        self.x, self.function, self.step = x.detach().requires_grad_(), function, step
        with sdpa_kernel(SDPBackend.MATH):  # fused attention has no second derivative
            outputs = function(self.x.clone())  # f may change its argument in place
            dual = torch.zeros_like(outputs, requires_grad=True)
            flags = {"create_graph": True, "materialize_grads": True}
            try:
                pulled = torch.autograd.grad(outputs, self.x, dual, **flags)
            except RuntimeError as error:
                raise MeasureError(f"no derivative with respect to the inputs: {error}") from None
        super().__init__(outputs, [self.x], dual, pulled)

    def times(self, v: Tensor) -> Tensor:
        if self.step is None:
            return super().times(v)
        lengths = v.norm(dim=1, keepdim=True)
        length = self.step * (float(self.x.detach().norm()) or 1.0)
        change = length * (v / lengths.where(lengths > 0, 1)).view_as(self.x)
        with torch.no_grad():
            above, below = self.function(self.x + change), self.function(self.x - change)
        return (above - below) / (2 * length) * lengths


@dataclass(frozen=True)
class Norms:
    """||J||_2 of each sample, (samples,) each.

    values: lower bounds, up to rounding.
    residuals: ||J v - sigma u|| / sigma of the singular vectors found.
    iterations: products with J, and as many with J^T.
    converged: whether the relative error that follows from the residual is within the tolerance.
    left: approximate left singular vectors, (samples, N).
    """

    values: Tensor
    residuals: Tensor
    iterations: Tensor
    converged: Tensor
    left: Tensor


def largest_singular_values(
    jacobian: PathJacobian,
    tolerance: float = 1e-3,
    most: int = 30,
    seed: int = 0,
    start: Tensor | None = None,
    in_the_mean: bool = False,
    by_residual: bool = False,
    tick: Callable[[], None] = lambda: None,
) -> Norms:
    """||J||_2 by Golub-Kahan bidiagonalization with full reorthogonalization.

    tolerance: relative to the norm.
    most: the most iterations.
    seed: of the start, a random u.
    start: u of each sample instead, (samples, N).
    in_the_mean: stop when the mean over the samples changes by less than the tolerance.
    by_residual: the residual itself must be within the tolerance, not the error that follows, and
        the value must have settled to the square of the tolerance for two iterations.

    With r the relative residual and g the relative distance to the second Ritz value, the error is
    at most about min(r, r^2/g). Because early Ritz values may miss larger ones, the value must also
    have changed by less than the tolerance in the last iteration. Where the second value is near
    the first, a start can still settle at the second: of random starts beside a gap of 4 %, 1 to 7
    in 100 at a tolerance of 1e-2, and by_residual fewer than 1. Source: Golub and Kahan (1965).
    """
    outputs = jacobian.outputs.detach()
    if start is None:
        generator = torch.Generator().manual_seed(seed)  # the same on every device and sample
        start = torch.randn(outputs.shape[1], generator=generator).to(outputs)
        left = [(start / start.norm()).expand_as(outputs)]
    else:
        left = [start / torch.linalg.vector_norm(start, dim=1, keepdim=True)]
    right: list[Tensor] = []
    diagonal: list[Tensor] = []
    below: list[Tensor] = []
    values = before = outputs.new_zeros(len(outputs), dtype=torch.float64)
    iterations = torch.zeros_like(values)
    converged = torch.zeros_like(values, dtype=torch.bool)
    residuals = torch.full_like(values, torch.nan)
    for _ in range(most):
        a, v = _next(jacobian.transposed_times(left[-1]), right, diagonal + below)
        right.append(v)
        diagonal.append(a)
        b, u = _next(jacobian.times(v), left, diagonal + below)
        left.append(u)
        below.append(b)
        earlier, before = before, values
        values, residuals, errors = _largest(torch.stack(diagonal), torch.stack(below))
        iterations += ~converged
        settled = (values - before).abs() <= tolerance * values
        if by_residual:
            errors = residuals
            settled = (values - earlier).abs() <= max(tolerance**2, SETTLED) * values
        converged = (errors <= tolerance) & (settled | (residuals == 0))
        tick()
        if bool((converged | ~values.isfinite()).all()):
            break
        if in_the_mean and bool((values - before).mean() <= tolerance * values.mean()):
            break
    matrix = _bidiagonal(torch.stack(diagonal), torch.stack(below))
    matrix = matrix.nan_to_num(posinf=0.0, neginf=0.0)
    first = torch.linalg.svd(matrix, full_matrices=False)[0][..., :1]
    vectors = torch.stack(left, 1).double().mT @ first
    return Norms(values, residuals, iterations, converged, vectors[..., 0].to(outputs))


def _next(new: Tensor, basis: list[Tensor], coefficients: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The parts of vectors orthogonal to a basis: their norms in float64 and the unit vectors.

    coefficients: the coefficients so far, relative to which rounding errors count as zero.
    """
    for _ in range(2):  # once is not enough if little is left
        for direction in basis:
            new = new - (direction * new).sum(1, keepdim=True) * direction
    norms = torch.linalg.vector_norm(new, dim=1, dtype=torch.float64)
    if coefficients:
        scale = torch.stack(coefficients).amax(0) * ROUNDING * torch.finfo(new.dtype).eps
        norms = torch.where(norms <= scale, 0.0, norms)
    safe = torch.where(norms == 0, 1.0, norms)
    unit = torch.where(norms[:, None] == 0, 0.0, new / safe[:, None].to(new.dtype))
    return norms, unit


def _largest(diagonal: Tensor, below: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Largest singular values of lower bidiagonal matrices, their residuals and relative errors.

    diagonal, below: (k, samples). The last row, which has only an entry of `below`, raises the
    value towards the norm; the residual is that of the square part, which is no closer to it.
    """
    size = len(diagonal)
    matrix = _bidiagonal(diagonal, below)
    finite = matrix.isfinite().flatten(1).all(1)
    matrix = torch.where(finite[:, None, None], matrix, 0.0)
    _, square, vectors = torch.linalg.svd(matrix[:, :size])
    largest = torch.linalg.svdvals(matrix)[:, 0]
    safe = torch.where(square[:, 0] > 0, square[:, 0], 1.0)
    residuals = matrix[:, size, size - 1] * vectors[:, 0, -1].abs() / safe
    errors = residuals
    if size > 1:
        gap = ((square[:, 0] - square[:, 1]) / safe).clamp(min=1e-300)
        errors = torch.minimum(residuals, residuals.square() / gap)
    values = torch.where(finite, largest, torch.nan)
    return values, residuals.where(finite, values), errors.where(finite, values)


def _bidiagonal(diagonal: Tensor, below: Tensor) -> Tensor:
    """(samples, k + 1, k)."""
    square, beside = (each.mT.diag_embed() for each in (diagonal, below))
    return pad(square, (0, 0, 0, 1)) + pad(beside, (0, 0, 1, 0))


def secant_slopes(
    f: Function,
    x: Tensor,
    start: float = 0.1,
    lr: float = 0.1,
    steps: int = 30,
    seed: int = 0,
    tick: Callable[[], None] = lambda: None,
) -> Tensor:
    """The largest ||f(x + d) - f(x)|| / ||d|| found by ascent over d, for each sample: (samples,).

    f: (samples, ...) -> (samples, N).
    x: (samples, ...).
    start: standard deviation of d at the start.
    lr: learning rate of Adam.
    steps: of Adam.
    seed: of the start.

    This slope of a secant exceeds ||J||_2 if f is steeper elsewhere, and is smaller if d is long
    and f bends. Source: chen2026 Eq. 58; the defaults are those of the authors' code.
    """
    generator = torch.Generator().manual_seed(seed)  # the same start on every device
    first = torch.randn(x.shape, generator=generator, dtype=x.dtype).to(x.device)
    delta = (start * first).requires_grad_()
    optimizer = torch.optim.Adam([delta], lr=lr, foreach=False)
    with torch.no_grad():
        at_x = f(x.clone())
    best = at_x.new_zeros(len(x), dtype=torch.float64)
    for _ in range(steps):
        slopes = _slopes(f(x + delta) - at_x, delta)
        best = torch.maximum(best, slopes.detach().double())
        (delta.grad,) = torch.autograd.grad(-slopes.sum(), delta)
        optimizer.step()
        tick()
    with torch.no_grad():
        return torch.maximum(best, _slopes(f(x + delta) - at_x, delta).double())


def _slopes(change: Tensor, delta: Tensor) -> Tensor:
    lengths = torch.linalg.vector_norm(delta.flatten(1), dim=1)
    return torch.linalg.vector_norm(change, dim=1) / lengths


def samples_at_a_time(function: Function, inputs: Tensor, budget: int | None = None) -> int:
    """How many samples keep the graphs of their `Jacobian` within a budget; at least one.

    budget: in bytes; None: `GRAPH_BYTES`.
    """
    if not inputs.is_floating_point():  # of tokens there is no such Jacobian
        return 1
    budget = budget or GRAPH_BYTES[inputs.device.type]
    return fitting(lambda: Jacobian(function, inputs[:1]), budget, len(inputs))
