"""petzka2021, Figure 3: does relative flatness tell the generalization gap, and where.

Data sets at several class separations, of each the relative flatness of a ridge regression on its
features, its risk and its generalization gap. Four variants:

exact: the features as they are drawn.
inverted: the features of inputs that were found by inverting a random tanh network, exactly; one
factor brings all features into the network's range, which makes the ridge penalty stronger.
reversed: as exact, but the list of separations is read backwards, as in the authors' public code:
what is labelled with the k-th separation was drawn at the k-th from the end.
code: all of that code. The same order; matrices with entries in (-1, 0); labels 0 and 1 where the
ridge regression has -1 and +1; a network that is inverted without its tanh, so that the model sees
other features than it was fitted to; kappa with weights times the variance, features as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

import numpy as np
import xarray as xr
from tqdm import tqdm

from flatlab.simulations._extractors import Extractor, invertible, rescaled
from flatlab.simulations._mixtures import draw
from flatlab.simulations._ridge import (
    LOSSES,
    Array,
    Linear,
    Normalization,
    normalized,
    relative_flatness,
    ridge,
)

SETTINGS = {
    "separations": "class separations",
    "batches": "how many batches, by variant",
    "datasets": "data sets in a batch",
    "training_size": "training samples of a data set",
    "test_size": "test samples of a data set",
    "alpha": "ridge penalty",
    "flipped": "share of the labels that are drawn anew, in the authors' code alone",
    "seed": "of all that is drawn",
}
"""What an experiment of this simulation states."""

NORMALIZATIONS: tuple[Normalization, ...] = get_args(Normalization)
BACKWARDS = ("reversed", "code")
DIMS = ("variant", "separation", "batch", "dataset")


class Sample(NamedTuple):
    """A data set and a model.

    targets: what the loss compares outputs with, labels +-1 or 0, 1.  redrawn: how many networks
    were drawn before it that cannot be inverted.
    """

    features: Array
    labels: Array
    targets: Array
    model: Linear
    redrawn: int = 0


def table(settings: Mapping[str, Any]) -> xr.Dataset:
    """Relative flatness, risk and gap of every data set: (variant, separation, batch, dataset).

    Also by `loss`, and relative flatness by `normalization`. `drawn_at` (variant, separation) is
    the separation of the data sets that are labelled with a separation. Variants with fewer
    batches have NaN in the others.
    """
    separations, batches = settings["separations"], settings["batches"]
    shape = (len(batches), len(separations), max(batches.values()), settings["datasets"])
    risks = np.full((*shape, len(LOSSES), 2), np.nan)
    flatness = np.full((*shape, len(LOSSES), len(NORMALIZATIONS)), np.nan)
    redrawn = 0
    drawn_at = [separations[::-1] if v in BACKWARDS else separations for v in batches]
    for place in tqdm(list(np.ndindex(shape)), unit="data set", mininterval=5):
        variant = list(batches)[place[0]]
        if place[2] >= batches[variant]:
            continue
        # The same data sets in all variants that draw in the same way.
        generator = np.random.default_rng([settings["seed"], *place[1:]])
        sample = SAMPLES[variant](generator, drawn_at[place[0]][place[1]], settings)
        redrawn += sample.redrawn
        flatness[place], risks[place] = measure(sample, settings["training_size"], variant)
    labels = {"loss": list(LOSSES), "normalization": list(NORMALIZATIONS)}
    found = {
        "relative_flatness": ((*DIMS, *labels), flatness, "relative flatness", "loss"),
        "risk": ((*DIMS, "loss"), risks[..., 1], "risk on test samples", "loss"),
        "gap": ((*DIMS, "loss"), risks[..., 1] - risks[..., 0], "test minus training risk", "loss"),
        "drawn_at": (DIMS[:2], np.array(drawn_at), "class separation of the data", "1"),
    }
    variables = {
        name: (dims, values, {"long_name": words, "units": units, "source": "petzka2021 App. C.1"})
        for name, (dims, values, words, units) in found.items()
    }
    labels |= {"variant": list(batches)}
    coordinates = {dim: np.array(names, dtype=object) for dim, names in labels.items()}
    count = ", ".join(f"{number} ({variant})" for variant, number in batches.items())
    extent = (
        f"{len(separations)} class separations, {settings['datasets']} data sets of "
        f"{settings['training_size']:,} training and {settings['test_size']:,} test samples in a "
        f"batch, batches: {count}"
    )
    if redrawn:
        extent += f"; networks that cannot be inverted, drawn anew: {redrawn}"
    return xr.Dataset(
        variables, coords={**coordinates, "separation": separations}, attrs={"extent": extent}
    )


def measure(sample: Sample, training: int, variant: str) -> tuple[Array, Array]:
    """Relative flatness (loss, normalization) and risk (loss, training and test) of a data set."""
    outputs, inside = sample.model(sample.features), sample.features[:training]
    weight, flatness, risks = sample.model.weight[None], [], []
    for name, loss in LOSSES.items():
        curvature = loss.curvature(outputs[:training])[:, None, None]
        row = []
        for by in NORMALIZATIONS:
            scaled, divided, _ = normalized(weight, inside, by)
            if variant == "code":  # the features stay as they are
                divided = inside[:, : scaled.shape[1]]
            row.append(relative_flatness(scaled, divided, curvature))
        flatness.append(row)
        values = loss.value(outputs, sample.labels if name == "zero-one" else sample.targets)
        risks.append([values[:training].mean(), values[training:].mean()])
    return np.array(flatness), np.array(risks)


def exact(generator: np.random.Generator, separation: float, settings: Mapping[str, Any]) -> Sample:
    """Features as they are drawn."""
    features, labels = draw(generator, separation, _size(settings))
    return Sample(features, labels, labels, _fitted(features, labels, settings))


def inverted(
    generator: np.random.Generator, separation: float, settings: Mapping[str, Any]
) -> Sample:
    """Features of inputs that were found for them, after one factor, and a model of these."""
    features, labels = draw(generator, separation, _size(settings))
    extractor, redrawn = invertible(generator, features.shape[1])
    features, _ = rescaled(extractor, features)
    return Sample(features, labels, labels, _fitted(features, labels, settings), redrawn)


def code(generator: np.random.Generator, separation: float, settings: Mapping[str, Any]) -> Sample:
    """The authors' code; the order of the separations apart."""
    features, labels = draw(
        generator, separation, _size(settings), (-1.0, 0.0), settings["flipped"]
    )
    model = _fitted(features, labels, settings)
    extractor = Extractor(generator, features.shape[1])
    seen = extractor(np.tanh(extractor.linear_inverse(features.astype(np.float32))))
    return Sample(seen.astype(np.float64), labels, (labels + 1) / 2, model)


SAMPLES = {"exact": exact, "inverted": inverted, "reversed": exact, "code": code}


def _size(settings: Mapping[str, Any]) -> int:
    return settings["training_size"] + settings["test_size"]


def _fitted(features: Array, labels: Array, settings: Mapping[str, Any]) -> Linear:
    training = settings["training_size"]
    return ridge(features[:training], labels[:training], settings["alpha"])
