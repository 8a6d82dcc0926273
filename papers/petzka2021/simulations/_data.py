"""Random data of petzka2021, App. C.1: labelled mixtures, and inputs that have them as features.

A feature extractor is a perceptron of widths 784-512-128-16-m with tanh after each layer. Inputs
with given features are found layer by layer, from the last to the first. The first layer has more
inputs than outputs, so that it attains any output exactly; it is never formed here.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import softmax

from flatlab.simulations._ridge import Array, one_coordinate

Single = NDArray[np.float32]

CLUSTERS, INFORMATIVE, REDUNDANT = 4, 6, 2
"""Of mixtures: Gaussians, their features, and linear combinations of these."""

WIDTHS = (512, 128, 16)
RANGE = 0.95
"""The largest absolute activation that is inverted; beyond it, tanh is too flat."""


class Mixture(NamedTuple):
    """Equally many points of each cluster: a normal row times its matrix, plus its centre.

    centres: (clusters, m).
    mixing: (clusters, m, m).
    """

    centres: Array
    mixing: Array

    def bias_constant(self, points: Array, sigma: float = 1.0) -> float:
        r"""C_1 / L of Prop. 12 of petzka2021, for the kernel of `one_coordinate`.

        tau_2 / (2m) int |laplacian(p(z) |z|^2)| dz, where p is the density and tau_2 the mean of
        |xi|^2 / h^2; the paper prints it without 1/(2m). Where the loss is at most L, the mean over
        samples of representativeness is at most C_1 delta^2 + O(delta^3).
        points: (n, m), drawn from the mixture; the integral is a mean over them.
        """
        offsets = points[:, None] - self.centres
        precision = np.linalg.inv(self.mixing.swapaxes(1, 2) @ self.mixing)
        pull = np.einsum("nki,kij->nkj", offsets, precision)  # minus the slope of a log density
        logs = np.linalg.slogdet(precision)[1] - np.einsum("nki,nki->nk", offsets, pull)
        share = softmax(logs / 2, axis=1)
        curvature = np.einsum("nki,nki->nk", pull, pull) - np.trace(precision, axis1=1, axis2=2)
        square, size = np.einsum("ni,ni->n", points, points), points.shape[1]
        laplacian = square * np.einsum("nk,nk->n", share, curvature) + 2 * size
        laplacian -= 4 * np.einsum("nk,nki,ni->n", share, pull, points)
        nodes, probabilities = one_coordinate(size, sigma)
        return float(probabilities @ nodes**2 / 2 * np.abs(laplacian).mean())


def mixture(
    generator: Generator, separation: float, entries: tuple[float, float] = (-1.0, 1.0)
) -> Mixture:
    """Centres at distinct vertices of the cube with corners +-separation, and random matrices."""
    vertices = generator.choice(2**INFORMATIVE, CLUSTERS, replace=False)
    corners = 2.0 * (vertices[:, None] >> np.arange(INFORMATIVE) & 1) - 1
    centres = np.asarray(separation * corners, dtype=np.float64)
    return Mixture(centres, generator.uniform(*entries, (CLUSTERS, INFORMATIVE, INFORMATIVE)))


def draw(
    generator: Generator,
    separation: float,
    size: int,
    entries: tuple[float, float] = (-1.0, 1.0),
    flipped: float = 0.0,
) -> tuple[Array, Array]:
    """Features (size, 8) and labels +1, -1 (size) from a `mixture` that is itself random.

    The classes of the clusters alternate. Two more features are random linear combinations of the
    mixture's six.
    entries: the range of all random matrices.  flipped: the share of labels that are redrawn.
    """
    centres, mixing = mixture(generator, separation, entries)
    combining = generator.uniform(*entries, (INFORMATIVE, REDUNDANT))
    cluster = generator.permutation(np.arange(size) % CLUSTERS)
    points = generator.standard_normal((size, INFORMATIVE))
    for k in range(CLUSTERS):
        points[cluster == k] = points[cluster == k] @ mixing[k] + centres[k]
    labels = np.where(cluster % 2 == 0, 1.0, -1.0)
    redrawn = generator.random(size) < flipped
    labels[redrawn] = generator.choice([-1.0, 1.0], redrawn.sum())
    return np.hstack([points, points @ combining]), labels


class Extractor:
    """layers: weight (outputs, inputs), its pseudo-inverse and bias of all layers but the first."""

    def __init__(self, generator: Generator, features: int) -> None:
        self.layers: list[list[Single]] = []
        for inputs, outputs in pairwise([*WIDTHS, features]):
            reach = np.sqrt(6 / (inputs + outputs))  # Glorot's uniform initialization
            weight = generator.uniform(-reach, reach, (outputs, inputs))
            inverse = np.linalg.solve(weight @ weight.T, weight).T  # least-norm
            bias = generator.uniform(-1, 1, outputs) / np.sqrt(inputs)
            self.layers.append([part.astype(np.float32) for part in (weight, inverse, bias)])

    def __call__(self, first: Single) -> Single:
        """Features (n, m) for the activations of the first layer (n, 512)."""
        for weight, _, bias in self.layers:
            first = np.tanh(first @ weight.T + bias)
        return first

    def inverse(self, features: Single) -> Single | None:
        """Activations of the first layer with these features; None if any exceeds RANGE."""
        activations = features
        for _, inverse, bias in self.layers[::-1]:
            if np.abs(activations).max() > RANGE:
                return None
            activations = (np.arctanh(activations) - bias) @ inverse.T
        return activations if np.abs(activations).max() <= RANGE else None

    def linear_inverse(self, features: Single) -> Single:
        """The first layer's values before tanh, as in the authors' code: as if no layer had one."""
        size = features.shape[1]
        matrix, shift = np.eye(size, dtype=np.float32), np.zeros(size, dtype=np.float32)
        for _, inverse, bias in self.layers[::-1]:
            matrix, shift = inverse @ matrix, inverse @ (shift - bias)
        return features @ matrix.T + shift

    def inverted_without_tanh(self, features: Array) -> Array:
        """The features that the authors' code obtains from the inputs of `linear_inverse`."""
        first = np.tanh(self.linear_inverse(features.astype(np.float32)))
        return self(first).astype(np.float64)


def invertible(generator: Generator, features: int) -> tuple[Extractor, int]:
    """An extractor that attains features near 0, and the number of those discarded before it.

    For about one in thousands, the biases alone exceed `RANGE`: they attain no features, however
    small.
    """
    nothing = np.zeros((1, features), dtype=np.float32)
    before = 0
    while (extractor := Extractor(generator, features)).inverse(nothing) is None:
        before += 1
    return extractor, before


def rescaled(extractor: Extractor, features: Array, step: float = 0.85) -> tuple[Array, float]:
    """Features times the largest factor on a ladder for which inputs exist, and that factor.

    Returns the features of these inputs, rounded to float32. The extractor must be `invertible`;
    otherwise the search does not terminate.
    """
    factor = RANGE / float(np.abs(features).max())
    while (first := extractor.inverse((factor * features).astype(np.float32))) is None:
        factor *= step
    return extractor(first).astype(np.float64), factor
