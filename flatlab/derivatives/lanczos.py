"""The largest eigenvalue of a symmetric map that is known by its products alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

RESIDUAL = 1e-4
"""Where the iteration stops, relative to the eigenvalue; the error is at most that, and where the
next eigenvalue is not close about its square."""
FEWEST, MOST = 8, 200
"""Products: a residual can be small at an eigenvalue that is not the largest before the largest,
of which a random start has a small share, has come up."""


@dataclass(frozen=True)
class Largest:
    """value: the algebraically largest eigenvalue, not that of the largest modulus.

    residual: ||A v - value v|| / |value| for the unit vector v that was found.  products: how many
    were taken.  converged: whether the residual is what was asked for, or nothing is left to find.
    """

    value: float
    residual: float
    products: int
    converged: bool


def largest_eigenvalue(
    product: Callable[[Tensor], Tensor],
    start: Tensor,
    residual: float = RESIDUAL,
    most: int = MOST,
) -> Largest:
    """By Lanczos' method with full reorthogonalization; NaN where a product is not finite.

    product: v -> A v, A symmetric.  start: (n), any vector with a share in the eigenvector.
    """
    vectors = [start / torch.linalg.vector_norm(start)]
    diagonal: list[float] = []
    beside: list[float] = []
    found = Largest(math.nan, math.nan, 0, False)
    for step in range(1, min(most, len(start)) + 1):
        image = product(vectors[-1]).clone()
        diagonal.append(float(image @ vectors[-1]))
        for _ in range(2):  # once more for what rounding has left
            for vector in vectors:
                image -= (image @ vector) * vector
        rest = float(torch.linalg.vector_norm(image))
        if not math.isfinite(diagonal[-1] + rest):
            return Largest(math.nan, math.nan, step, False)
        values, rotation = scipy.linalg.eigh_tridiagonal(np.array(diagonal), np.array(beside))
        value, left = float(values[-1]), rest * abs(float(rotation[-1, -1]))
        relative = left / abs(value) if value else math.inf
        exhausted = rest <= 10 * torch.finfo(start.dtype).eps * np.abs(values).max()
        if exhausted:  # the vectors span all that the map can reach from the start
            return Largest(value, relative if left else 0.0, step, True)
        found = Largest(value, relative, step, step >= FEWEST and relative <= residual)
        if found.converged:
            return found
        beside.append(rest)
        vectors.append(image / rest)
    return found
