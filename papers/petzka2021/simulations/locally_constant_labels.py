"""petzka2021, Figure 3: the correlation of relative flatness with the generalization gap.

Data sets are drawn at several class separations. For each, a ridge regression on its features has a
relative flatness, a risk and a generalization gap. There are four variants:

exact: the features as drawn.
inverted: the features of inputs that were found by inverting a random tanh network exactly; a
common factor brings all features into the network's range, which strengthens the ridge penalty.
reversed: as exact, but with the list of separations read backwards, as in the authors' public code:
data sets labelled with the k-th separation are drawn with the k-th from the end.
code: everything as in that code. The reversed list; matrices with entries in (-1, 0); labels 0 and
1 where the ridge regression has -1 and +1; a network that is inverted without its tanh, so that the
model sees other features than it was fitted to; kappa with the weights multiplied by the variance,
but the features not divided by it.
"""

from typing import Annotated, Literal, NamedTuple, get_args

import numpy as np
import xarray as xr
from msgspec import Meta
from tqdm import tqdm

from flatlab.core.schema import Strict, means
from flatlab.core.store import as_strings
from flatlab.simulations._data import Extractor, draw, invertible, rescaled
from flatlab.simulations._ridge import (
    LOSSES,
    Array,
    Linear,
    Normalization,
    normalized,
    relative_flatness,
    ridge,
)


class Options(Strict, frozen=True):
    separations: Annotated[list[float], means("class separations", min_length=1)]
    batches: Annotated[
        dict[Literal["exact", "inverted", "reversed", "code"], Annotated[int, Meta(ge=1)]],
        means("number of batches of each variant", min_length=1),
    ]
    datasets: Annotated[int, means("data sets per batch", ge=1)]
    training_size: Annotated[int, means("training samples per data set", ge=2)]
    test_size: Annotated[int, means("test samples per data set", ge=1)]
    alpha: Annotated[float, means("ridge penalty", gt=0)]
    flipped: Annotated[float, means("share of redrawn labels in `code`", ge=0, le=1)]
    seed: Annotated[int, means("random seed", ge=0)]


NORMALIZATIONS: tuple[Normalization, ...] = get_args(Normalization)
DIMS = ("variant", "separation", "batch", "dataset")


class Sample(NamedTuple):
    """A data set and a model.

    features: (n, m).
    labels: (n), +1 and -1.
    targets: (n), what the loss compares outputs with: the labels, or 0 and 1.
    model: the ridge regression that was fitted to the training samples.
    redrawn: the number of networks that were discarded before it because they cannot be inverted.
    """

    features: Array
    labels: Array
    targets: Array
    model: Linear
    redrawn: int = 0


def table(options: Options) -> xr.Dataset:
    """Relative flatness, risk and gap of every data set: (variant, separation, batch, dataset).

    They also depend on `loss`, and relative flatness on `normalization`. `drawn_at` (variant,
    separation) is the separation with which the data sets labelled with a separation are drawn.
    Variants with fewer batches are padded with NaN.
    """
    separations, batches = options.separations, options.batches
    drawn_at = [
        separations[::-1] if variant in ("reversed", "code") else separations for variant in batches
    ]
    shape = (len(batches), len(separations), max(batches.values()), options.datasets)
    risks = np.full((*shape, len(LOSSES), 2), np.nan)
    flatness = np.full((*shape, len(LOSSES), len(NORMALIZATIONS)), np.nan)
    redrawn = 0
    for place in tqdm(list(np.ndindex(shape)), unit="data set", mininterval=5):
        variant = list(batches)[place[0]]
        if place[2] >= batches[variant]:
            continue
        # All variants that draw in the same way have the same data sets.
        generator = np.random.default_rng([options.seed, *place[1:]])
        sample = make(variant, generator, drawn_at[place[0]][place[1]], options)
        redrawn += sample.redrawn
        flatness[place], risks[place] = measure(sample, options.training_size, variant)
    count = ", ".join(f"{number} ({variant})" for variant, number in batches.items())
    extent = (
        f"{len(separations)} class separations, {options.datasets} data sets of "
        f"{options.training_size:,} training and {options.test_size:,} test samples in a "
        f"batch, batches: {count}"
    )
    if redrawn:
        extent += f"; networks that cannot be inverted, drawn anew: {redrawn}"
    by_loss, gap = (*DIMS, "loss"), risks[..., 1] - risks[..., 0]
    by_both = (*by_loss, "normalization")
    quantities = {
        "relative_flatness": (by_both, flatness, "relative flatness", "loss"),
        "risk": (by_loss, risks[..., 1], "risk on test samples", "loss"),
        "gap": (by_loss, gap, "test minus training risk", "loss"),
        "drawn_at": (DIMS[:2], np.array(drawn_at), "class separation of the data", "1"),
    }
    variables = {
        name: (dims, values, {"long_name": words, "units": units, "source": "petzka2021 App. C.1"})
        for name, (dims, values, words, units) in quantities.items()
    }
    coordinates = {
        "variant": as_strings([*batches]),
        "separation": separations,
        "loss": as_strings([*LOSSES]),
        "normalization": as_strings([*NORMALIZATIONS]),
    }
    return xr.Dataset(variables, coords=coordinates, attrs={"extent": extent})


def make(
    variant: str, generator: np.random.Generator, separation: float, options: Options
) -> Sample:
    """Draw a data set of a variant and fit its model; the separation is not reversed here."""
    in_code, size = variant == "code", options.training_size + options.test_size
    entries, flipped = ((-1.0, 0.0), options.flipped) if in_code else ((-1.0, 1.0), 0.0)
    features, labels = draw(generator, separation, size, entries, flipped)
    redrawn = 0
    if variant == "inverted":
        extractor, redrawn = invertible(generator, features.shape[1])
        features, _ = rescaled(extractor, features)
    training = slice(options.training_size)
    model = ridge(features[training], labels[training], options.alpha)
    if in_code:
        seen = Extractor(generator, features.shape[1]).inverted_without_tanh(features)
        return Sample(seen, labels, (labels + 1) / 2, model)
    return Sample(features, labels, labels, model, redrawn)


def measure(sample: Sample, training: int, variant: str) -> tuple[Array, Array]:
    """Relative flatness (loss, normalization) and risk (loss, training and test) of a data set."""
    outputs, inside = sample.model(sample.features), sample.features[:training]
    pairs = []
    for by in NORMALIZATIONS:
        weight, divided, constant = normalized(sample.model.weight[None], inside, by)
        pairs.append((weight, inside.compress(~constant, axis=1) if variant == "code" else divided))
    flatness, risks = [], []
    for name, loss in LOSSES.items():
        curvature = loss.curvature(outputs[:training])[:, None, None]
        flatness.append([relative_flatness(*pair, curvature) for pair in pairs])
        values = loss.value(outputs, sample.labels if name == "zero-one" else sample.targets)
        risks.append([values[:training].mean(), values[training:].mean()])
    return np.array(flatness), np.array(risks)
