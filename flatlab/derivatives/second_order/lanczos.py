"""The largest eigenvalue of a symmetric linear map, from its products with vectors."""

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from flatlab.derivatives.second_order.hessian_products import Product

RESIDUAL = 1e-4
"""Where the iteration stops, relative to the eigenvalue. The error is at most that, and about its
square if the next eigenvalue is not close."""
FEWEST, MOST = 8, 200
"""Products. The residual can be small at a smaller eigenvalue at first, because a random start has
only a small component along the largest one."""


@dataclass(frozen=True)
class Eigenpair:
    """The largest eigenvalue of a symmetric map A, and its eigenvector.

    value: the algebraically largest eigenvalue, not the one with the largest modulus.
    residual: ||A v - value v|| / |value| for the unit vector v that was found.
    products: how many were computed.
    converged: whether the residual is small enough or the space is exhausted.
    vector: v, (n).
    """

    value: float
    residual: float
    products: int
    converged: bool
    vector: Tensor


def largest_eigenvalue(
    product: Product, start: Tensor, residual: float = RESIDUAL, most: int = MOST
) -> Eigenpair:
    """By Lanczos' method with full reorthogonalization; NaN if a product is not finite.

    product: v -> A v, A symmetric.
    start: (n), not orthogonal to the eigenvector.
    residual: relative to the eigenvalue, where the iteration stops.
    most: products, at most.
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
            return Eigenpair(math.nan, math.nan, step, False, torch.full_like(start, math.nan))
        values, rotation = scipy.linalg.eigh_tridiagonal(np.array(diagonal), np.array(beside))
        value, left = float(values[-1]), rest * abs(float(rotation[-1, -1]))
        relative = left / abs(value) if value else math.inf
        # Exhausted: the vectors span everything that the map can reach from the start.
        exhausted = rest <= 10 * torch.finfo(start.dtype).eps * np.abs(values).max()
        converged = bool(exhausted or (step >= FEWEST and relative <= residual))
        if converged or step == most:
            weights = torch.from_numpy(rotation[:, -1]).to(start)
            vector = known.mT @ weights
            return Eigenpair(value, relative if left else 0.0, step, converged, vector)
        beside.append(rest)
        if step == len(vectors):
            vectors = start.new_empty(min(2 * step, most), len(start))
            vectors[:step] = known
        vectors[step] = image / rest
