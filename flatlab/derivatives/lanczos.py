"""The largest eigenvalue of a symmetric map that is given by its products."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

RESIDUAL = 1e-4
"""Where the iteration stops, relative to the eigenvalue. The error is at most that, and about its
square if the next eigenvalue is not close."""
FEWEST, MOST = 8, 200
"""Products. The residual can be small at a smaller eigenvalue at first, because a random start has
only a small component along the largest one."""


@dataclass(frozen=True)
class Largest:
    """value: the algebraically largest eigenvalue, not the one with the largest modulus.

    residual: ||A v - value v|| / |value| for the unit vector v that was found.  products: how many
    were computed.  converged: whether the residual is small enough or the space is exhausted.
    """

    value: float
    residual: float
    products: int
    converged: bool


def largest_eigenvalue(
    product: Callable[[Tensor], Tensor], start: Tensor, residual: float = RESIDUAL, most: int = MOST
) -> Largest:
    """By Lanczos' method with full reorthogonalization; NaN if a product is not finite.

    product: v -> A v, A symmetric.  start: (n), not orthogonal to the eigenvector.
    """
    vectors = [start / torch.linalg.vector_norm(start)]
    diagonal: list[float] = []
    beside: list[float] = []
    found = Largest(math.nan, math.nan, 0, False)
    for step in range(1, min(most, len(start)) + 1):
        image = product(vectors[-1]).clone()
        diagonal.append(float(image @ vectors[-1]))
        for _ in range(2):  # the second pass removes what rounding has left
            for vector in vectors:
                image -= (image @ vector) * vector
        rest = float(torch.linalg.vector_norm(image))
        if not math.isfinite(diagonal[-1] + rest):
            return Largest(math.nan, math.nan, step, False)
        values, rotation = scipy.linalg.eigh_tridiagonal(np.array(diagonal), np.array(beside))
        value, left = float(values[-1]), rest * abs(float(rotation[-1, -1]))
        relative = left / abs(value) if value else math.inf
        exhausted = rest <= 10 * torch.finfo(start.dtype).eps * np.abs(values).max()
        if exhausted:  # the vectors span everything that the map can reach from the start
            return Largest(value, relative if left else 0.0, step, True)
        found = Largest(value, relative, step, step >= FEWEST and relative <= residual)
        if found.converged:
            return found
        beside.append(rest)
        vectors.append(image / rest)
    return found
