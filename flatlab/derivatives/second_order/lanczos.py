"""Find eigenvalues and the spectral density of a symmetric map A from its products with vectors.

All by Lanczos' method with full reorthogonalization. `largest_eigenvalue` needs one eigenvalue and
keeps the whole space. `extreme_eigenvalues` finds several at both ends: its space is compressed to
the wanted Ritz vectors where it would take too much memory (thick restart: Wu and Simon, 2000). A
space from one start holds one vector of each eigenvalue, however many A has; so, when several
wanted pairs have converged, a second random start is followed for some products, and the search
goes on if it brings anything new. `quadratures` follows random starts for a fixed number of
products (stochastic Lanczos quadrature: Ubaru, Chen and Saad, 2017).
"""

import math
from collections.abc import Sequence
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


FLOOR = 1e-2
"""Residuals are relative to an eigenvalue's modulus or, where that is more, to this share of the
largest modulus: below, rounding in float32 leaves no digits."""
AGAIN = 8
"""Products from each further random start."""
BYTES = 2**30
"""Of a basis, unless the wanted pairs need more."""
SPARE = 20
"""Vectors that a compressed space has beside the wanted ones, at least."""


@dataclass(frozen=True)
class Eigenpairs:
    """Eigenvalues at both ends of the spectrum of a symmetric map A.

    values: the largest ones, descending, then the smallest ones, ascending; float64. NaN where a
        product is not finite.
    residuals: ||A v - value v|| of the unit vectors v.
    converged: whether each residual is small enough.
    vectors: v, as rows.
    products: how many were computed.
    """

    values: np.ndarray
    residuals: np.ndarray
    converged: np.ndarray
    vectors: Tensor
    products: int


class Space:
    """An orthonormal basis V, as rows, with the projection T = V A V^T of a symmetric map.

    A V^T = V^T T + P^T C, where P are unit vectors whose images are not known yet; so C has the
    residuals of all Ritz pairs. `expand` computes the image of the last one of P.
    """

    def __init__(self, product: Product, start: Tensor) -> None:
        self.product, self.products = product, 0
        self.basis = start.new_empty(SPARE, len(start))
        self.projection = np.zeros((0, 0))
        self.pending = start.new_empty(0, len(start))
        self.coupling = np.zeros((0, 0))
        self.scale = 0.0  # a lower bound of the norm of A
        self.follow(start)

    @property
    def size(self) -> int:
        return len(self.projection)

    def follow(self, vector: Tensor) -> bool:
        """Take a further start; False if the space has it already."""
        rest, _, length = self._orthogonal(vector / torch.linalg.vector_norm(vector))
        if not length > 100 * torch.finfo(vector.dtype).eps:
            return False
        self._append(rest / length, np.zeros(self.size))
        return True

    def expand(self) -> bool:
        """One product more; False if it is not finite."""
        vector, row = self.pending[-1], self.coupling[-1]
        self.pending, self.coupling = self.pending[:-1], self.coupling[:-1]
        size = self.size
        if size == len(self.basis):
            self.basis = torch.cat([self.basis, torch.empty_like(self.basis)])
        self.basis[size] = vector
        self.projection = np.block([[self.projection, row[:, None]], [row[None], np.zeros((1, 1))]])
        image = self.product(vector)
        self.products += 1
        rest, along, length = self._orthogonal(image, row)
        if not np.isfinite(length):
            return False
        self.projection[size, size] = along[size]
        self.coupling = np.hstack([self.coupling, along[size + 1 :, None]])
        self.scale = max(self.scale, float(np.linalg.norm(along)), length)
        if length > 10 * torch.finfo(vector.dtype).eps * self.scale:  # the space is not exhausted
            self._append(rest / length, np.append(np.zeros(size), length))
        return True

    def ritz(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ritz values, ascending; their coordinates in the basis, as columns; and residuals."""
        values, coordinates = np.linalg.eigh(self.projection)
        return values, coordinates, np.linalg.norm(self.coupling @ coordinates, axis=0)

    def vectors(self, coordinates: np.ndarray) -> Tensor:
        """The vectors with these coordinates, as rows.  coordinates: columns."""
        return torch.from_numpy(coordinates.T).to(self.basis) @ self.basis[: self.size]

    def compress(self, values: np.ndarray, coordinates: np.ndarray) -> None:
        """Keep these Ritz vectors alone, and what is pending."""
        kept = self.vectors(coordinates)
        self.basis[: len(kept)] = kept
        self.projection = np.diag(values)
        self.coupling = self.coupling @ coordinates

    def _append(self, vector: Tensor, row: np.ndarray) -> None:
        self.pending = torch.cat([self.pending, vector[None]])
        self.coupling = np.vstack([self.coupling, row[None]])

    def _orthogonal(
        self, image: Tensor, known: np.ndarray | None = None
    ) -> tuple[Tensor, np.ndarray, float]:
        """What is orthogonal to basis and pending vectors, the coordinates in both, its length.

        known: of the image of the last vector of the basis, its coordinates in those before.
        """
        size, rest = self.size, image.clone()
        along = np.zeros(size + len(self.pending))
        if known is not None:
            along[: size - 1] = known
            for row in np.flatnonzero(known):
                rest.sub_(self.basis[row], alpha=float(known[row]))
            part = self.basis[size - 1] @ rest
            rest -= part * self.basis[size - 1]
            along[size - 1] = float(part)
        length = float(torch.linalg.vector_norm(rest))
        for _ in range(2):
            before = length
            for place, rows in ((0, self.basis[:size]), (size, self.pending)):
                if len(rows):
                    parts = rows @ rest
                    rest -= rows.mT @ parts
                    along[place : place + len(rows)] += parts.double().cpu().numpy()
            length = float(torch.linalg.vector_norm(rest))
            if length > 0.7 * before:  # else a second pass removes what rounding has left
                break
        return rest, along, length


def extreme_eigenvalues(
    product: Product,
    start: Tensor,
    largest: int,
    smallest: int = 0,
    *,
    residual: float = 1e-4,
    most: int = 1000,
    seed: int = 0,
    repeated: bool = True,
) -> Eigenpairs:
    """Eigenvalues at both ends, each as often as it occurs.

    product: v -> A v, A symmetric.
    start: (n), at random, or near the eigenvectors.
    largest, smallest: how many at each end; both together at most n.
    residual: of each pair, relative as `FLOOR` says, where the iteration stops.
    most: products, at most.
    seed: of the further random starts.
    repeated: follow further starts; without, an eigenvalue may come less often than it occurs.
    """
    wanted, size = largest + smallest, len(start)
    held = max(BYTES // (size * start.element_size()), 2 * wanted + SPARE)
    space, generator = Space(product, start), torch.Generator().manual_seed(seed)
    until, before = AGAIN if wanted == 1 else wanted, None
    while True:
        if not space.pending.shape[0] and not space.follow(random_start(start, generator)):
            break  # it is the space of all vectors
        if not space.expand():
            missing = np.full(wanted, np.nan)
            nothing = torch.full((wanted, size), torch.nan).to(start)
            return Eigenpairs(missing, missing, np.zeros(wanted, bool), nothing, space.products)
        if space.products >= most and space.size >= wanted:
            break
        if space.size >= held:
            values, coordinates, _ = space.ritz()
            kept = _ends(space.size, *_with_spare(largest, smallest, space.size))
            space.compress(values[kept], coordinates[:, kept])
        if space.products < until or space.size < wanted:
            continue
        values, _, residuals = space.ritz()
        place = _ends(len(values), largest, smallest)
        until = space.products + 1 + space.size // 50
        if not small(values, residuals, residual)[place].all():
            continue
        if wanted == 1 or not repeated:  # one vector of it is enough
            break
        if before is not None and np.allclose(values[place], before, rtol=residual, atol=0):
            break
        before, until = values[place], space.products + AGAIN
        space.follow(random_start(start, generator))
    values, coordinates, residuals = space.ritz()
    place = _ends(len(values), largest, smallest)
    converged = small(values, residuals, residual)[place]
    vectors = space.vectors(coordinates[:, place])
    return Eigenpairs(values[place], residuals[place], converged, vectors, space.products)


def small(values: np.ndarray, residuals: np.ndarray, residual: float) -> np.ndarray:
    """Whether each residual is small enough, relative as `FLOOR` says."""
    modulus = np.abs(values)
    return residuals <= residual * np.maximum(modulus, FLOOR * modulus.max())


def _ends(count: int, largest: int, smallest: int) -> np.ndarray:
    """Places of the largest of ascending values, descending, and of the smallest, ascending."""
    above = np.arange(count)[::-1][:largest]
    return np.concatenate([above, np.arange(count)[:smallest]])


def _with_spare(largest: int, smallest: int, size: int) -> tuple[int, int]:
    """How many Ritz vectors to keep at each end: the wanted ones and some of those next to them."""
    more = min(SPARE // 2, (size - largest - smallest) // 2)
    ends = (largest > 0) + (smallest > 0)
    return (largest + more // ends if largest else 0, smallest + more // ends if smallest else 0)


def random_start(like: Tensor, generator: torch.Generator) -> Tensor:
    """(n), normal, in the precision and on the device of a tensor (..., n)."""
    return torch.randn(like.shape[-1], generator=generator, dtype=torch.float64).to(like)


def quadrature(
    product: Product, like: Tensor, probes: int, steps: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Gauss quadratures of the spectral density of a symmetric map A, from random signs.

    Nodes and weights, (probes, steps) each. Weights have a sum of one, and what is left where a
    space was exhausted has weight 0. A start with a product that is not finite has nodes NaN.

    product: v -> A v.
    like: (n), whose precision and device are taken.
    probes: random starts v; the mean of f(A) over them, v^T f(A) v / n, estimates its trace / n.
    steps: of each, at most; a quadrature is exact for polynomials up to degree 2 steps - 1.
    """
    generator = torch.Generator().manual_seed(seed)
    steps = min(steps, len(like))
    nodes, weights = np.zeros((2, probes, steps))
    for probe in range(probes):
        signs = 2.0 * torch.randint(2, like.shape, generator=generator) - 1
        space = Space(product, signs.to(like))
        while space.size < steps and len(space.pending):
            if not space.expand():
                nodes[probe] = np.nan
                break
        else:
            values, coordinates, _ = space.ritz()
            nodes[probe] = values[-1]
            nodes[probe, : len(values)] = values
            weights[probe, : len(values)] = coordinates[0] ** 2
    return nodes, weights


def density(
    nodes: np.ndarray, weights: np.ndarray, at: Sequence[float] | np.ndarray, width: float
) -> tuple[np.ndarray, np.ndarray]:
    """A spectral density, smoothed by a Gaussian, and its standard error over the probes.

    nodes, weights: of quadratures, (probes, steps).
    at: where, (points).
    width: the standard deviation of the Gaussian.

    The error is NaN for a single probe.
    """
    distances = (np.asarray(at)[:, None, None] - nodes) / width
    kernels = np.exp(-0.5 * distances**2) / (width * np.sqrt(2 * np.pi))
    each = (kernels * weights).sum(-1)  # (points, probes)
    probes = each.shape[1]
    error = each.std(1, ddof=1) / probes**0.5 if probes > 1 else np.full(len(each), np.nan)
    return each.mean(1), error
