"""Labelled mixtures of four Gaussians in feature space: the data of petzka2021, App. C.1."""

import numpy as np
from numpy.random import Generator

from flatlab.simulations._ridge import Array

CLUSTERS, INFORMATIVE, REDUNDANT = 4, 6, 2


def draw(
    generator: Generator,
    separation: float,
    size: int,
    entries: tuple[float, float] = (-1.0, 1.0),
    flipped: float = 0.0,
) -> tuple[Array, Array]:
    """Features (size, 8) and labels +1, -1 (size) from a distribution that is itself random.

    Four distinct vertices of the cube with corners +-separation are the centres of clusters of
    equal size, with alternating classes; the points of a cluster are normal, multiplied by a random
    matrix. Two more features are random linear combinations of these six.
    entries: the range of all random matrices.  flipped: the share of labels that are redrawn.
    """
    vertices = generator.choice(2**INFORMATIVE, CLUSTERS, replace=False)
    centres = separation * (2.0 * (vertices[:, None] >> np.arange(INFORMATIVE) & 1) - 1)
    mixing = generator.uniform(*entries, (CLUSTERS, INFORMATIVE, INFORMATIVE))
    combining = generator.uniform(*entries, (INFORMATIVE, REDUNDANT))
    cluster = generator.permutation(np.arange(size) % CLUSTERS)
    points = generator.standard_normal((size, INFORMATIVE))
    for k in range(CLUSTERS):
        points[cluster == k] = points[cluster == k] @ mixing[k] + centres[k]
    labels = np.where(cluster % 2 == 0, 1.0, -1.0)
    redrawn = generator.random(size) < flipped
    labels[redrawn] = generator.choice([-1.0, 1.0], redrawn.sum())
    return np.hstack([points, points @ combining]), labels
