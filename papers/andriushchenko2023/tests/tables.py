"""Synthetic tables of the grids and zoos of andriushchenko2023."""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from flatlab.papers.andriushchenko2023._names import (
    AVERAGE_NORMALIZED,
    AVERAGE_PLAIN,
    BERT,
    IMAGES,
    NORMALIZED,
    PLAIN,
    SENTENCES,
    TABLE3,
    VIT,
)
from flatlab.papers.andriushchenko2023.claims import CLAIMS
from flatlab.papers.andriushchenko2023.claims_recipes import RESNETS, VITS
from tests.synthetic.tables import judged, table

RUN = ("run", "checkpoint", "samples")
OF_RELEASED = [NORMALIZED, PLAIN, AVERAGE_NORMALIZED, AVERAGE_PLAIN]
OF_RECIPES = list(TABLE3[RESNETS])
EACH = 40
"""Networks of each of the four groups of recipes."""

RECIPES = [
    {"augmentation": augmentation, "mixup_alpha": alpha}
    for augmentation in ("none", "crop-flip")
    for alpha in (0.0, 0.5)
]
ABOUT = {"network": "some", "data": "made-up", "extent": "so many", "length": "a while"}
ABOUT["stands_in_for"] = ""


def classifiers(peak=1.0, floor=0.0, tail=0.0, normalized=0.0, error=0.0, rise=0.0, noise=0.0):
    """Five classifiers: sharpness is a bump over the factors, on a floor, with a value at the end;
    through training it falls, but for a rise at the end.
    """
    generator = np.random.default_rng(0)
    factors = np.logspace(-10, 10, 30, base=2)
    curve = floor + peak * np.exp(-((np.log2(factors) + 2) ** 2) / 4)
    curve[-1] += tail
    around = 1 + noise * generator.normal(size=(5, 1, 1, 1))
    plain = curve * around * np.array([1.0, 2.0, 3.0])[:, None] * np.ones((5, 3, 1, 1))
    other = np.full_like(plain, 0.5)
    other[..., -1] += normalized
    scaled = np.stack([plain, other], axis=2)  # run, neighbourhood, logits, radius, factor
    falling = np.tile([0.1, 1.0, 0.5, 0.2], (5, 1))
    falling[:, -1] += rise * (1 + noise * generator.normal(size=5))
    dims = (*RUN, "neighbourhood", "logits", "radius")
    rules = {
        "classification_error": lambda _: np.tile([80.0, 0.0, 0.0, error], (5, 1)),
        "train_loss": lambda _: falling,
    }
    settings, steps = [{"initialization": "framework"}], (0, 1, 10, 100)
    return table("linear-grid", settings, rules, steps=steps, **ABOUT).assign(
        worst_sharpness=(dims, falling[:, :, None, None, None, None] * np.ones((3, 2, 3))),
        scaled_worst_sharpness=((*dims, "factor"), np.stack([scaled] * 4, axis=1)[:, :, None]),
        weight_factor=((*RUN, "factor"), np.tile(factors, (5, 4, 1, 1))),
        neighbourhood=["ball", "adaptive-l2", "adaptive-linf"],
        logits=["plain", "normalized"],
        radius=["0.1", "0.25", "0.5"],
    )


def linear(last=5, **changes):
    """Five classifiers, of which the last ones have these changes."""
    parts = [
        classifiers().isel(run=slice(5 - last)),
        classifiers(**changes)[{"run": slice(-last, None)}],
    ]
    return parts[1] if last == 5 else xr.concat(parts, "run", join="exact")


def diagonal(runs=80, error=0.02, rescaled=0.33, plain=2.0, eigenvalue=-2.0, stopped=None):
    """Networks whose trace is twice their norm up to an error. The noise of their logarithms is
    `rescaled` around the test loss, `plain` in the trace as it is; the largest eigenvalue goes as
    the trace to that power, with noise as large. Both scales alike.
    """
    generator = np.random.default_rng(1)
    test, a, b, c = generator.normal(size=(4, runs))
    trace = np.exp(test + rescaled * a)
    largest = np.exp(eigenvalue * np.log(trace) + c)
    end = np.stack([np.exp(test + plain * b), trace, trace, trace], axis=1)
    traces = np.stack([np.ones((runs, 4)), end], axis=1)
    norm = trace / 2 / (1 + error * generator.choice([0.9, 1.1], size=runs))
    traces[:, 0, 0] = np.exp(generator.normal(size=runs))
    lr = np.exp(generator.normal(size=runs))
    fits = np.arange(runs) < (runs if stopped is None else stopped)
    return table(
        "dln-grid",
        [{"initialization": "framework"}],
        {"coefficients_norm_1": lambda _: norm, "test_loss": lambda _: np.exp(test)},
        seeds=runs,
        steps=(0, 100),
        coordinates={"lr": lambda _: lr, "ended": lambda _: np.where(fits, "stopped", "finished")},
        **ABOUT,
    ).assign(
        rescaled_trace=((*RUN, "scales"), traces[:, :, None]),
        rescaled_lambda_max=((*RUN, "scales"), np.tile(largest[:, None, None, None], (1, 2, 1, 4))),
        scales=["none", "balanced", "printed", "elementwise"],
    )


def recipes(
    own=1.0,
    between=0.0,
    plain=1.0,
    rate=-1.0,
    shift=0.0,
    outside=0.2,
    noise=0.3,
    each=EACH,
    best=False,
    augmented_error=0.5,
):
    """Networks trained by recipes. Error and sharpness follow one number of each network.

    own: how the error goes with it, within groups.
    between: how the mean error of a group falls with its mean sharpness, which rises from group to
        group.
    plain: how sharpness without normalized logits goes with it.
    rate, shift: how the logarithm of the learning rate goes with the sharpness, and with the group.
    outside: how the error on corrupted images goes with it.
    noise: of all of these.
    each: networks of each group.
    best: whether the flattest network is the best one.
    augmented_error: the training error of networks with augmentation.
    """
    generator = np.random.default_rng(0)
    runs = 4 * each
    group = np.repeat(np.arange(4), each)
    inside = generator.normal(size=runs)
    error = own * inside - between * group + noise * generator.normal(size=runs)
    errors = np.stack([error, outside * inside + generator.normal(size=runs)], 1)
    ways = np.array([plain if "adaptive" in name else 1.0 for name in OF_RECIPES])
    sharpness = np.exp(ways * inside[:, None] + group[:, None])[:, :, None].repeat(4, 2)
    if best:
        error[sharpness[:, OF_RECIPES.index(PLAIN), 0].argmin()] = error.min() - 1
        errors[:, 0] = error
    lr = np.exp(rate * inside + shift * group + noise * generator.normal(size=runs))
    radii = (*RUN, "definition", "radius_index")
    return table(
        RESNETS,
        RECIPES,
        {
            "test_error": lambda _: error + 20,
            "train_error": lambda _: np.where(group < 2, 0.5, augmented_error),
        },
        seeds=each,
        coordinates={
            "lr": lambda _: lr,
            "sam_radius": lambda _: np.where(np.arange(runs) % 3, 0.1, 0.0),
        },
        **ABOUT,
    ).assign(
        sharpness_at_radius=(radii, sharpness[:, None, None]),
        sharpness_radius=(radii, np.full((runs, 1, 1, len(OF_RECIPES), 4), 0.1)),
        test_set_error=(("run", "checkpoint", "test_set"), errors[:, None] + 20),
        definition=OF_RECIPES,
        radius_index=list("0123"),
        test_set=["test", "corrupted"],
    )


def zoo(
    key=VIT,
    runs=240,
    slope=0.0,
    noise=0.3,
    apart=0.0,
    decay=0.0,
    rate=0.0,
    train=(0.0, 0.0),
    spans=(50.0, 1.0),
):
    """Released networks.

    key: of the zoo.
    runs: how many.
    slope: how their sharpness follows their errors, by definition or for all.
    noise: of the sharpness.
    apart: how far dropout puts the sharpness.
    decay: how the errors fall with weight decay.
    rate: how they go with the learning rate.
    train: how the training error goes with them, and its noise.
    spans: of the errors on HANS lexical and MNLI.
    """
    generator = np.random.default_rng(1)
    sets = list(SENTENCES if key == BERT else IMAGES)
    good, dropout, weight_decay = generator.normal(size=(3, runs))
    dropout, weight_decay = dropout > 0, weight_decay > 0
    noises = generator.normal(size=(len(OF_RELEASED), runs))
    error = good - decay * weight_decay
    slopes = slope if isinstance(slope, Mapping) else dict.fromkeys(OF_RELEASED, slope)
    ways = np.array([slopes.get(name, 0.0) for name in OF_RELEASED])
    sharpness = ways * error[:, None] + noise * noises.T + apart * dropout[:, None]
    errors = np.repeat(40 + 5 * error[:, None], len(sets), 1)
    if key == BERT:
        scaled = (error - error.min()) / np.ptp(error)
        errors[:, sets.index("hans-lexical")] = 45 + spans[0] * scaled
        errors[:, 0] = 16 + spans[1] * scaled
    lr = np.exp(rate * error + generator.normal(size=runs))
    trained = 30 + train[0] * error + train[1] * generator.normal(size=runs)
    radii, sharp = ("run", "definition", "radius_index"), np.exp(sharpness)[:, :, None].repeat(3, 2)
    variables = {
        "sharpness_at_radius": (radii, sharp),
        "sharpness_radius": (radii, np.full(sharp.shape, 0.002)),
        "test_set_error": (("run", "test_set"), errors),
        "test_set_error_gap": (("run", "test_set"), (errors - trained[:, None]) / 100),
        "test_error": ("run", errors[:, 0]),
        "train_error": ("run", trained),
    }
    by_run = {"dropout": 0.1 * dropout, "weight_decay": 0.03 + 0.07 * weight_decay, "lr": lr}
    coordinates = {
        **{"run": [f"n{n}" for n in range(runs)], "definition": OF_RELEASED, "test_set": sets},
        **{name: ("run", values) for name, values in by_run.items()},
        "radius_index": list("012"),
    }
    about = {"experiment": key, "evidence": "own", "differs": [], "hyperparameters": []}
    return xr.Dataset(variables, coordinates, about)


def claim_of(name):
    figure, key = name.split("/")
    return CLAIMS[figure][key]


def verdict(name, table):
    """Of a claim about networks of any experiment."""
    tables = [table, table.assign_attrs(experiment=VITS)]
    return judged(claim_of(name), *tables[: 1 + (table.attrs["experiment"] == RESNETS)])
