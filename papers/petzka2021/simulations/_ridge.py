"""Linear models on features: ridge regression, relative flatness and representativeness.

Closed forms and one-dimensional quadrature. A model has outputs f = w phi + b on n samples, whose
labels y are +1 and -1. Source: petzka2021.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import chi2

Array = NDArray[np.float64]
Normalization = Literal["none", "deviation", "variance"]
NODES = 64
"""Quadrature nodes in the neighbourhood of a point."""


class Loss(NamedTuple):
    """A loss of one output.

    value: the loss for outputs and labels.
    curvature: its second derivative in the output.
    """

    value: Callable[[Array, Array], Array]
    curvature: Callable[[Array], Array]


LOSSES = {
    "squared": Loss(lambda f, y: (f - y) ** 2, lambda f: np.full(np.shape(f), 2.0)),
    "cross-entropy": Loss(
        lambda f, y: np.logaddexp(0, -f * y).astype(np.float64),
        lambda f: np.asarray(expit(f) * expit(-f)),
    ),
    "zero-one": Loss(lambda f, y: (f * y <= 0).astype(np.float64), np.zeros_like),
}
"""Squared error, not halved; of a sigmoid; errors, whose curvature is 0 almost everywhere."""


class Linear(NamedTuple):
    """A linear model with one output.

    weight: (m).
    intercept: a number.
    """

    weight: Array
    intercept: float

    def __call__(self, features: Array) -> Array:
        """features: (..., m). Returns the outputs (...)."""
        return features @ self.weight + self.intercept


def ridge(features: Array, labels: Array, alpha: float) -> Linear:
    """Minimizes sum (f - y)^2 + alpha |w|^2; the intercept is not penalized.

    features: (n, m).
    labels: (n).
    alpha: the penalty.
    """
    center, mean = features.mean(axis=0), labels.mean()
    deviations = features - center
    gram = deviations.T @ deviations + alpha * np.eye(features.shape[1])
    weight = np.linalg.solve(gram, deviations.T @ (labels - mean))
    return Linear(weight, float(mean - center @ weight))


def relative_flatness(weight: Array, features: Array, curvature: Array) -> float:
    r"""Relative flatness of a linear layer, kappa_Tr = sum_{s,s'} <w_s, w_s'> Tr H_{s,s'}.

    weight: (outputs, m); rows w_s are neurons.
    features: (n, m), the layer's inputs phi.
    curvature: (n, outputs, outputs), the Hessian of each sample's loss in the layer's outputs.
    The Hessian of the mean loss is H_{s,s'} = mean curvature_{s,s'} phi phi^T, so that kappa_Tr =
    mean |phi|^2 Tr(w^T curvature w) exactly. Source: petzka2021 Def. 3, without the bias.
    Misnomer: large means sharp.
    """
    square = np.einsum("nm,nm->n", features, features)
    return float(np.mean(square * np.einsum("nst,st->n", curvature, weight @ weight.T)))


def normalized(
    weight: Array, features: Array, by: Normalization
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Divide features by their spread and multiply the columns of the weight by it.

    weight: (outputs, m).
    features: (n, m).
    by: "deviation" makes relative flatness invariant under all rescalings of neurons; "variance",
        as printed in Theorem 4 of petzka2021, does not.

    The function stays the same. Features that are constant over the sample have no spread and are
    left out; the third value returned marks them (m).
    """
    deviation = features.std(axis=0)
    constant = deviation <= 1e-12 * np.abs(features).max(axis=0)
    if by == "none":
        return weight, features, np.zeros_like(constant)
    spread = (deviation if by == "deviation" else deviation**2)[~constant]
    return weight[:, ~constant] * spread, features[:, ~constant] / spread, constant


def one_coordinate(dimension: int, sigma: float = 1.0) -> tuple[Array, Array]:
    """The distribution of one coordinate of xi/h, as nodes in (-1, 1) and their probabilities.

    xi is isotropic normal in R^dimension with standard deviation h sigma, truncated to |xi| < h:
    Eq. 6 of petzka2021. The other coordinates integrate to the chi-squared distribution function.
    """
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    rest = chi2.cdf((1 - nodes**2) / sigma**2, dimension - 1) if dimension > 1 else 1.0
    density = weights * np.exp(-(nodes**2) / (2 * sigma**2)) * rest
    return nodes, density / density.sum()


def loss_nearby(
    loss: Loss, model: Linear, features: Array, labels: Array, delta: float, sigma: float = 1.0
) -> Array:
    """E loss(f(phi + xi), y) for each sample (n), over a neighbourhood of its features.

    features: (n, m).
    labels: (n).
    delta, sigma: xi is as in `one_coordinate`, with h = delta |phi|; a linear model depends only on
        its coordinate along w.
    """
    nodes, probabilities = one_coordinate(features.shape[1], sigma)
    reach = delta * np.linalg.norm(features, axis=1) * np.linalg.norm(model.weight)
    outputs = model(features)[:, None] + reach[:, None] * nodes
    return loss.value(outputs, labels[:, None]) @ probabilities


def representativeness(
    loss: Loss,
    fit: Callable[[Array, Array], Linear],
    features: Array,
    labels: Array,
    folds: Sequence[NDArray[np.intp]],
    delta: float,
    sigma: float = 1.0,
) -> float:
    """The representativeness of a sample, approximated from that sample by cross-validation.

    The mean over folds of the difference between two losses of the model fitted to the other folds:
    on the fold, and in the neighbourhoods of the other folds, which stand for their distribution.
    fit: features and labels -> model.  Source: petzka2021 Eq. 3 and Sec. 6; the estimate does not
    bound the risk.
    """
    differences = []
    for fold in folds:
        rest = np.ones(len(labels), dtype=bool)
        rest[fold] = False
        model = fit(features[rest], labels[rest])
        risk = loss.value(model(features[fold]), labels[fold]).mean()
        nearby = loss_nearby(loss, model, features[rest], labels[rest], delta, sigma).mean()
        differences.append(risk - nearby)
    return float(np.mean(differences))


def approximated_bound(
    delta: float, dimension: int, flatness: float, representativeness: float
) -> float:
    """delta^2 / (2 m) kappa_Tr + representativeness, where m is the dimension of the features.

    Source: petzka2021 Thm. 6 without its higher-order terms; an approximation, not a bound.
    """
    return delta**2 / (2 * dimension) * flatness + representativeness
