"""petzka2021, Figure 4: an approximate generalization bound beside the generalization gap.

There are two variants, both of a ridge regression on features:

paper: mixtures of four Gaussians, cross-validation in which a model is fitted to all folds but one,
squared loss, and the bound delta^2 / (2 m) kappa_Tr + representativeness with the same delta.
code: the authors' public code. Data of scikit-learn's make_classification; a model is fitted to few
samples of one fold and tested on the others; a network that is inverted without its tanh; labels 0
and 1 in the gap and in kappa; kappa with the weights multiplied by the variance, divided by m;
delta^2 / m; and for representativeness a cross-validated zero-one error minus its kernel-weighted
mean, with a bandwidth of 1 and a smaller delta in the weights.
"""

from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from numpy.random import Generator
from numpy.typing import NDArray
from tqdm import tqdm

from flatlab.core.schema import Strict, means
from flatlab.core.store import as_strings
from flatlab.simulations._data import INFORMATIVE, Extractor, draw, mixture
from flatlab.simulations._ridge import (
    LOSSES,
    Array,
    approximated_bound,
    normalized,
    relative_flatness,
    representativeness,
    ridge,
)

Indices = NDArray[np.intp]


class Options(Strict, frozen=True):
    separations: Annotated[list[float], means("class separations", min_length=1)]
    variants: Annotated[list[Literal["paper", "code"]], means("variants to compute", min_length=1)]
    repeats: Annotated[int, means("samples per class separation", ge=1)]
    size: Annotated[int, means("points per sample", ge=2)]
    folds: Annotated[int, means("parts of a sample, each the test set once", ge=2)]
    inner_folds: Annotated[int, means("training folds for representativeness", ge=2)]
    delta: Annotated[float, means("relative radius of the neighbourhoods", gt=0)]
    sigma: Annotated[float, means("standard deviation in units of the radius", gt=0)]
    alpha: Annotated[float, means("ridge penalty", gt=0)]
    code_training_size: Annotated[int, means("training samples in `code`", ge=2)]
    code_kernel_delta: Annotated[float, means("delta of the kernel in `code`", gt=0)]
    seed: Annotated[int, means("random seed", ge=0)]


NAMES = {
    "gap": "test minus training risk",
    "relative_flatness": "relative flatness",
    "representativeness": "representativeness, approximated",
    "bound": "approximated generalization bound",
    "worst_case": "bound of the mean representativeness, C_1 n^(-2/(4+m)) of Prop. 12",
}
SQUARED = LOSSES["squared"]


class Sample(NamedTuple):
    """A sample and its folds.

    features: (n, m).
    labels: (n), +1 and -1.
    fold, rest: indices of one fold, and of all others.
    bias_constant: C_1 / L of Prop. 12, of the six features that have a density: the eight have
        none. NaN for data whose density is not known.
    """

    features: Array
    labels: Array
    fold: Indices
    rest: Indices
    bias_constant: float = np.nan


def table(options: Options) -> xr.Dataset:
    """The gap, the bound and its parts of each model: (variant, separation, repeat, fold)."""
    variants, separations = options.variants, options.separations
    shape = (len(variants), len(separations), options.repeats, options.folds)
    values = np.empty((len(NAMES), *shape))
    for place in tqdm(list(np.ndindex(shape[:3])), unit="data set", mininterval=5):
        draw_data, measure = VARIANTS[variants[place[0]]]
        generator = np.random.default_rng([options.seed, *place])
        features, labels = draw_data(generator, separations[place[1]], options.size)
        constant = np.nan
        if draw_data is draw:
            again = np.random.default_rng([options.seed, *place])
            density = mixture(again, separations[place[1]])
            constant = density.bias_constant(features[:, :INFORMATIVE], options.sigma)
        parts = partition(generator, len(labels), options.folds)
        for number, fold in enumerate(parts):
            rest = np.concatenate([part for part in parts if part is not fold])
            sample = Sample(features, labels, fold, rest, constant)
            values[(slice(None), *place, number)] = measure(generator, sample, options)
    dims = ("variant", "separation", "repeat", "fold")
    attributes = {"units": "loss", "source": "petzka2021 Sec. 6, App. C.1"}
    variables = {
        name: (dims, part, {"long_name": words, **attributes})
        for (name, words), part in zip(NAMES.items(), values, strict=True)
    }
    extent = (
        f"{len(separations)} class separations, {options.repeats} samples of "
        f"{options.size:,}, {options.folds} folds"
    )
    coordinates = {"variant": as_strings([*variants]), "separation": separations}
    return xr.Dataset(variables, coords=coordinates, attrs={"extent": extent})


def partition(generator: Generator, size: int, count: int) -> list[Indices]:
    """A random partition of `size` samples into `count` parts."""
    return np.array_split(generator.permutation(size), count)


def in_paper(generator: Generator, data: Sample, options: Options) -> list[float]:
    """The numbers of NAMES for a model fitted to all folds but one and tested on that."""
    fit = partial(ridge, alpha=options.alpha)
    inside, targets = data.features[data.rest], data.labels[data.rest]
    model = fit(inside, targets)
    losses = SQUARED.value(model(data.features), data.labels)
    risk, empirical = losses[data.fold].mean(), losses[data.rest].mean()
    curvature = SQUARED.curvature(model(inside))[:, None, None]
    flatness = relative_flatness(model.weight[None], inside, curvature)
    parts = partition(generator, len(inside), options.inner_folds)
    delta = options.delta
    unlike = representativeness(SQUARED, fit, inside, targets, parts, delta, options.sigma)
    bound = approximated_bound(delta, inside.shape[1], flatness, unlike)
    shrinking = len(data.rest) ** (-2 / (4 + INFORMATIVE))
    worst_case = losses.max() * data.bias_constant * shrinking
    return [risk - empirical, flatness, unlike, bound, worst_case]


def in_code(generator: Generator, data: Sample, options: Options) -> list[float]:
    """The same numbers as the authors' code computes them, for a model fitted to part of a fold."""
    training, dimension = data.fold[: options.code_training_size], data.features.shape[1]
    fit = partial(ridge, alpha=options.alpha)
    inside, targets = data.features[training], data.labels[training]
    model = fit(inside, targets)
    seen = Extractor(generator, dimension).inverted_without_tanh(data.features)
    outputs = model(seen)
    errors = SQUARED.value(outputs, (data.labels + 1) / 2)
    weight, _, _ = normalized(model.weight[None], seen[training], "variance")
    curvature = SQUARED.curvature(outputs[training])[:, None, None]
    flatness = relative_flatness(weight, seen[training], curvature) / dimension
    parts = partition(generator, len(training), options.inner_folds)
    unlike = _kernel_weighted(fit, inside, targets, parts, options.code_kernel_delta)
    bound = options.delta**2 / dimension * flatness + unlike
    return [errors[data.rest].mean() - errors[training].mean(), flatness, unlike, bound, np.nan]


def _kernel_weighted(
    fit: Any, features: Array, labels: Array, folds: list[Indices], delta: float
) -> float:
    """Cross-validated zero-one errors, each minus its kernel-weighted mean over the other samples.

    The bandwidth is 1, the weights are proportional to delta |phi|, and the kernel's argument is
    the root of the distance.
    """
    differences = []
    for fold in folds:
        others = np.setdiff1d(np.arange(len(labels)), fold)
        model = fit(features[others], labels[others])
        weights = delta * np.linalg.norm(features[others], axis=1)
        weights /= weights.sum()
        distance = np.linalg.norm(features[fold][:, None] - features[others], axis=2)
        kernel = np.exp(-distance / 2) / (2 * np.pi) ** (features.shape[1] / 2) * weights
        predicted = np.sign(model(features))
        wrong = predicted[others] != labels[fold][:, None]
        nearby = (kernel * wrong).sum(axis=1) / len(others)
        differences.append(np.mean((predicted[fold] != labels[fold]) - nearby))
    return float(np.mean(differences))


def _classification(generator: Generator, separation: float, size: int) -> tuple[Array, Array]:
    """The data of the authors' code: 3 informative, 4 redundant and 3 noise features."""
    from sklearn.datasets import make_classification

    seed = int(generator.integers(2**31))
    features, classes = make_classification(
        size, 10, n_informative=3, n_redundant=4, class_sep=separation, random_state=seed
    )
    return features, 2.0 * classes - 1


VARIANTS = {"paper": (draw, in_paper), "code": (_classification, in_code)}
"""The data and the measurement of each variant."""
