"""petzka2021, Figure 4: an approximated generalization bound beside the generalization gap.

Two variants, both of a ridge regression on features:

paper: mixtures of four Gaussians, cross-validation in which a model is fitted to all folds but one,
squared loss, and delta^2 / (2 m) kappa_Tr + representativeness with one delta.
code: the authors' public code. Data of scikit-learn's make_classification; a model is fitted to few
samples of one fold and tested on the others; a network that is inverted without its tanh; labels 0
and 1 in the gap and in kappa; kappa with weights times the variance, divided by m; delta^2 / m; and
for representativeness a cross-validated zero-one error less its kernel-weighted mean, with a
bandwidth of 1 and a smaller delta in the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from numpy.random import Generator
from numpy.typing import NDArray
from tqdm import tqdm

from flatlab.simulations._extractors import Extractor
from flatlab.simulations._mixtures import draw
from flatlab.simulations._ridge import (
    LOSSES,
    Array,
    approximated_bound,
    normalized,
    relative_flatness,
    representativeness,
    ridge,
)

SETTINGS = {
    "separations": "class separations",
    "variants": "`paper`, `code` or both",
    "repeats": "independent samples at each class separation",
    "size": "points of a sample",
    "folds": "parts of a sample, of which each is the test set once",
    "inner_folds": "parts of the training set in the approximation of representativeness",
    "delta": "relative radius of the neighbourhoods",
    "sigma": "deviation of the truncated normal distribution, in units of its radius",
    "alpha": "ridge penalty",
    "code_training_size": "training samples in the authors' code",
    "code_kernel_delta": "relative radius in the kernel's weights in the authors' code",
    "seed": "of all that is drawn",
}
"""What an experiment of this simulation states."""

NAMES = {
    "gap": "test minus training risk",
    "relative_flatness": "relative flatness",
    "representativeness": "representativeness, approximated",
    "bound": "approximated generalization bound",
}
SQUARED = LOSSES["squared"]


def table(settings: Mapping[str, Any]) -> xr.Dataset:
    """The gap, the bound and its parts of each model: (variant, separation, repeat, fold)."""
    variants, separations = settings["variants"], settings["separations"]
    shape = (len(variants), len(separations), settings["repeats"], settings["folds"])
    values = np.empty((len(NAMES), *shape))
    for place in tqdm(list(np.ndindex(shape[:3])), unit="data set", mininterval=5):
        variant, separation = variants[place[0]], separations[place[1]]
        generator = np.random.default_rng([settings["seed"], *place])
        features, labels = DATA[variant](generator, separation, settings["size"])
        parts = folds(generator, len(labels), settings["folds"])
        for number, fold in enumerate(parts):
            rest = np.concatenate([part for part in parts if part is not fold])
            values[(slice(None), *place, number)] = MEASURES[variant](
                generator, features, labels, fold, rest, settings
            )
    dims = ("variant", "separation", "repeat", "fold")
    attributes = {"units": "loss", "source": "petzka2021 Sec. 6, App. C.1"}
    variables = {
        name: (dims, part, {"long_name": words, **attributes})
        for (name, words), part in zip(NAMES.items(), values, strict=True)
    }
    extent = (
        f"{len(separations)} class separations, {settings['repeats']} samples of "
        f"{settings['size']:,}, {settings['folds']} folds"
    )
    coordinates = {"variant": np.array(variants, dtype=object), "separation": separations}
    return xr.Dataset(variables, coords=coordinates, attrs={"extent": extent})


def folds(generator: Generator, size: int, count: int) -> list[NDArray[np.intp]]:
    """A random partition of so many samples."""
    return np.array_split(generator.permutation(size), count)


def of_the_paper(
    generator: Generator,
    features: Array,
    labels: Array,
    test: NDArray[np.intp],
    training: NDArray[np.intp],
    settings: Mapping[str, Any],
) -> list[float]:
    """The numbers of NAMES for a model of the training part."""
    fit = partial(ridge, alpha=settings["alpha"])
    inside, targets = features[training], labels[training]
    model = fit(inside, targets)
    risks = [SQUARED.value(model(features[part]), labels[part]).mean() for part in (training, test)]
    curvature = SQUARED.curvature(model(inside))[:, None, None]
    flatness = relative_flatness(model.weight[None], inside, curvature)
    parts = folds(generator, len(training), settings["inner_folds"])
    delta = settings["delta"]
    unlike = representativeness(SQUARED, fit, inside, targets, parts, delta, settings["sigma"])
    bound = approximated_bound(delta, inside.shape[1], flatness, unlike)
    return [risks[1] - risks[0], flatness, unlike, bound]


def of_the_code(
    generator: Generator,
    features: Array,
    labels: Array,
    fold: NDArray[np.intp],
    rest: NDArray[np.intp],
    settings: Mapping[str, Any],
) -> list[float]:
    """The same as the authors' code has them: the model is of a part of the fold."""
    training, dimension = fold[: settings["code_training_size"]], features.shape[1]
    fit = partial(ridge, alpha=settings["alpha"])
    inside, targets = features[training], labels[training]
    model = fit(inside, targets)
    extractor = Extractor(generator, dimension)
    single = extractor(np.tanh(extractor.linear_inverse(features.astype(np.float32))))
    seen, binary = single.astype(np.float64), (labels + 1) / 2
    outputs = model(seen)
    errors = SQUARED.value(outputs, binary)
    weight, _, _ = normalized(model.weight[None], seen[training], "variance")
    curvature = SQUARED.curvature(outputs[training])[:, None, None]
    flatness = relative_flatness(weight, seen[training], curvature) / dimension
    parts = folds(generator, len(training), settings["inner_folds"])
    unlike = _kernel_weighted(fit, inside, targets, parts, settings["code_kernel_delta"])
    bound = settings["delta"] ** 2 / dimension * flatness + unlike
    return [errors[rest].mean() - errors[training].mean(), flatness, unlike, bound]


def _kernel_weighted(
    fit: Any, features: Array, labels: Array, parts: list[NDArray[np.intp]], delta: float
) -> float:
    """Zero-one errors of cross-validation, each less what a kernel density makes of the others.

    Its bandwidth is 1, its weights are proportional to delta |phi|, and its argument is the root of
    the distance.
    """
    found = []
    for part in parts:
        others = np.setdiff1d(np.arange(len(labels)), part)
        model = fit(features[others], labels[others])
        weights = delta * np.linalg.norm(features[others], axis=1)
        weights /= weights.sum()
        distance = np.linalg.norm(features[part][:, None] - features[others], axis=2)
        kernel = np.exp(-distance / 2) / (2 * np.pi) ** (features.shape[1] / 2) * weights
        predicted = np.sign(model(features))
        wrong = predicted[others] != labels[part][:, None]
        nearby = (kernel * wrong).sum(axis=1) / len(others)
        found.append(np.mean((predicted[part] != labels[part]) - nearby))
    return float(np.mean(found))


def _classification(generator: Generator, separation: float, size: int) -> tuple[Array, Array]:
    """The data of the authors' code: 3 informative, 4 redundant features and 3 of noise."""
    from sklearn.datasets import make_classification

    seed = int(generator.integers(2**31))
    features, classes = make_classification(
        size, 10, n_informative=3, n_redundant=4, class_sep=separation, random_state=seed
    )
    return features, 2.0 * classes - 1


DATA = {"paper": draw, "code": _classification}
MEASURES = {"paper": of_the_paper, "code": of_the_code}
