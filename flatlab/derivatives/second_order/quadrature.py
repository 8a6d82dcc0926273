"""The spectral density of a symmetric map, by Gauss quadratures from random starts.

Stochastic Lanczos quadrature: Ubaru, Chen and Saad (2017).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from flatlab.derivatives.second_order.hessian_products import Product
from flatlab.derivatives.second_order.krylov import Space


@dataclass(frozen=True)
class Quadrature:
    """Gauss quadratures of spectral densities, from random starts.

    nodes: (probes, steps); where a space was exhausted, what is left has weight 0.
    weights: (probes, steps), of sum one.
    products: how many were computed.
    """

    nodes: np.ndarray
    weights: np.ndarray
    products: int


def quadrature(
    product: Product, like: Tensor, probes: int, steps: int, seed: int = 0
) -> Quadrature:
    """Gauss quadratures of the spectral density of a symmetric map A, from random signs.

    product: v -> A v.
    like: (n), whose precision and device are taken.
    probes: random starts v; the mean of f(A) over them, v^T f(A) v / n, estimates its trace / n.
    steps: of each, at most; a quadrature is exact for polynomials up to degree 2 steps - 1.
    seed: of the signs.

    A start with a product that is not finite has nodes NaN.
    """
    generator = torch.Generator().manual_seed(seed)
    steps = min(steps, len(like))
    nodes, weights, products = np.zeros((probes, steps)), np.zeros((probes, steps)), 0
    for probe in range(probes):
        signs = 2.0 * torch.randint(2, like.shape, generator=generator) - 1
        space = Space(product, signs.to(like))
        while space.size < steps and len(space.pending):
            if not space.expand():
                nodes[probe] = np.nan
                break
        products += space.products
        if np.isnan(nodes[probe]).any():
            continue
        values, coordinates, _ = space.ritz()
        nodes[probe] = values[-1]
        nodes[probe, : len(values)] = values
        weights[probe, : len(values)] = coordinates[0] ** 2
    return Quadrature(nodes, weights, products)


def density(
    found: Quadrature, at: Sequence[float] | np.ndarray, width: float
) -> tuple[np.ndarray, np.ndarray]:
    """A spectral density, smoothed by a Gaussian, and its standard error over the probes.

    found: quadratures.
    at: where, (points).
    width: the standard deviation of the Gaussian.

    The error is NaN for a single probe.
    """
    distances = (np.asarray(at)[:, None, None] - found.nodes) / width
    kernels = np.exp(-0.5 * distances**2) / (width * np.sqrt(2 * np.pi))
    each = (kernels * found.weights).sum(-1)  # (points, probes)
    probes = each.shape[1]
    error = each.std(1, ddof=1) / probes**0.5 if probes > 1 else np.full(len(each), np.nan)
    return each.mean(1), error
