"""The trace of a symmetric matrix H from products with random signs: Hutchinson's way, or Hutch++.

Hutchinson takes the mean of s^T H s over vectors of random signs. Hutch++ takes an orthonormal
basis Q of some H s, and with P = I - Q Q^T

    tr(H) = tr(Q^T H Q) + tr(P H P),

the first exactly, the second as the mean of (P s)^T H (P s) over new signs. Given Q that is
unbiased, so the standard error of this mean is that of the estimate. It pays where few eigenvalues
are large, as in the Hessians of classifiers. The part of some parameters in v^T H v, summed over
the columns of Q and averaged over v = P s, has the trace of H in these parameters as expectation.
Sources: Hutchinson (1990); Meyer, Musco, Musco and Woodruff (2021).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

ROUND = 30
"""Signs drawn at first, columns of Q, and the fewest signs of a mean."""
MOST = 3000
"""Signs."""
COLUMNS = 2**16
"""Numbers of all vectors that are multiplied at a time, in float64."""
DEPENDENT = 1e-10
"""A direction whose square is at most this share of the largest is left out of a basis."""

Vector = Callable[[], Tensor]
"""Makes a vector (M,), because all at once may not fit."""


class Parts(Protocol):
    """v^T H v by part of v: (vectors, parts), float64.  into: rows (vectors, M), for the H v."""

    def __call__(self, vectors: Sequence[Vector], into: Tensor | None = None) -> Tensor: ...


@dataclass(frozen=True)
class TraceParts:
    """Traces of parts of a matrix, each the sum of `exact` and the mean of the `draws`.

    exact: by part, (parts,), float64.
    draws: by part, (signs, parts), float64; no rows if all is exact.
    way: `exact`, `hutchinson`, `hutch++`, or `outputs`: signs of outputs.
    """

    exact: Tensor
    draws: Tensor
    way: str

    def estimates(self) -> tuple[Tensor, Tensor]:
        """The traces of the parts and their standard errors, 0 where they are exact."""
        if not len(self.draws):
            return self.exact, torch.zeros_like(self.exact)
        return self.exact + self.draws.mean(0), self.draws.std(0) / len(self.draws) ** 0.5

    def relative_error(self) -> float:
        """The standard error of the trace over its size."""
        traces = self.draws.sum(1)
        size = (traces.mean() + self.exact.sum()).abs()
        return float(traces.std() / size) / len(traces) ** 0.5


def signs(count: int, seed: int, number: int, like: Tensor) -> Tensor:
    """(count,)  number: of the vector.  like: of the type and device wanted."""
    generator = torch.Generator().manual_seed(1_000_003 * seed + number)
    return (2.0 * torch.randint(2, (count,), generator=generator) - 1).to(like)


def unit(count: int, number: int, like: Tensor) -> Tensor:
    """(count,)"""
    vector = like.new_zeros(count)
    vector[number] = 1
    return vector


def random_trace(
    parts: Parts, like: Tensor, count: int, accuracy: float, seed: int, held: int
) -> TraceParts:
    """The trace to a relative standard error, in the way that needs the fewest products.

    parts: of the matrix.
    like: of the type and device of vectors.
    count: M.
    accuracy: wanted.
    held: bytes that vectors may take; Hutch++ holds `ROUND` of them.

    The first signs serve the mean of Hutchinson, and say what Hutch++ would leave: of half of the
    H s, what is orthogonal to the other half.
    """
    fits = ROUND * count * like.element_size() <= held
    sketch = like.new_zeros(ROUND, count) if fits else None
    draws = parts([partial(signs, count, seed, k, like) for k in range(ROUND)], sketch)
    plain = TraceParts(draws.new_zeros(len(draws[0])), draws, "hutchinson")
    error = plain.relative_error()
    if not accuracy < error < torch.inf:
        return plain
    needed, deflated = ROUND * (error / accuracy) ** 2, torch.inf
    if sketch is not None:
        deflated = 2 * ROUND + max(ROUND, left_by_half(sketch) * needed)
    if sketch is None or min(needed, ROUND + count) <= deflated:
        return further(parts, like, count, plain, accuracy, seed)
    start, basis = hutch_plus_plus(parts, sketch, seed)
    return further(parts, like, count, start, accuracy, seed, basis)


def hutch_plus_plus(parts: Parts, sketch: Tensor, seed: int) -> tuple[TraceParts, Tensor]:
    """Q^T H Q with the first signs of the rest, and Q^T.

    sketch: H s of the first signs of this seed, (vectors, M), overwritten by Q^T.
    """
    basis = sketch[: orthonormalize(sketch)]
    count = len(sketch[0])
    exact = parts([partial(basis.__getitem__, k) for k in range(len(basis))]).sum(0)
    numbers = range(len(sketch), len(sketch) + ROUND)
    draws = parts([partial(rest, seed, k, basis, count, basis) for k in numbers])
    return TraceParts(exact, draws, "hutch++"), basis


def further(
    parts: Parts,
    like: Tensor,
    count: int,
    trace: TraceParts,
    accuracy: float,
    seed: int,
    basis: Tensor | None = None,
) -> TraceParts:
    """More signs until the accuracy is reached, at most twice as many at a time.

    trace: that of the signs so far.
    basis: Q^T of Hutch++, whose sketch took the first signs.
    Where more signs are needed than there are numbers in a vector, one product for each is exact.
    """
    while accuracy < (error := trace.relative_error()) < torch.inf:
        have = len(trace.draws)
        missing = have * ((error / accuracy) ** 2 - 1)
        if count <= min(missing, MOST):
            sums = parts([partial(unit, count, k, like) for k in range(count)])
            return TraceParts(sums.sum(0), sums[:0], "exact")
        if have >= MOST:
            break
        more = max(1, min(have, MOST - have, int(missing)))
        first = have + (0 if basis is None else ROUND)
        numbers = range(first, first + more)
        draws = parts([partial(rest, seed, k, like, count, basis) for k in numbers])
        trace = replace(trace, draws=torch.cat([trace.draws, draws]))
    return trace


def rest(seed: int, number: int, like: Tensor, count: int, basis: Tensor | None) -> Tensor:
    """Signs, or P s: what of them is orthogonal to the rows of a basis.  basis: (k, M)."""
    vector = signs(count, seed, number, like)
    return vector if basis is None else vector - (basis @ vector) @ basis


def left_by_half(sketch: Tensor) -> float:
    """The share of the squares of half of the rows that is orthogonal to the other half."""
    half = len(sketch) // 2
    products = gram(sketch)
    inside = torch.linalg.pinv(products[:half, :half], rtol=DEPENDENT, hermitian=True)
    across = products[half:, :half]
    of_all = products[half:, half:].trace()
    within = (across @ inside * across).sum()
    return float((1 - within / of_all).clamp(0, 1)) if of_all > 0 else 0.0


def orthonormalize(rows: Tensor) -> int:
    """Overwrite the first rows by an orthonormal basis of all, and return how many they are.

    rows: (k, M). Twice, because once loses as many digits as the rows are close to dependent.
    """
    rank = len(rows)
    for _ in range(2):
        values, vectors = torch.linalg.eigh(gram(rows[:rank]))
        kept = values > DEPENDENT * values[-1].clamp(min=0)
        combine = (vectors[:, kept] / values[kept].sqrt()).mT.to(rows)
        for start in range(0, rows.shape[1], COLUMNS):
            part = rows[:, start : start + COLUMNS]
            part[: len(combine)] = combine @ part[:rank]
        rank = len(combine)
    return rank


def gram(rows: Tensor) -> Tensor:
    """Y Y^T of rows (k, M), in float64."""
    total = rows.new_zeros(len(rows), len(rows), dtype=torch.float64)
    for part in rows.split(COLUMNS, 1):
        wide = part.double()
        total += wide @ wide.mT
    return total
