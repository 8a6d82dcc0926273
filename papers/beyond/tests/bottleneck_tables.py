"""Synthetic tables of `bottleneck-grid`: what is measured of representations, made up."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import xarray as xr

from flatlab.papers.beyond._bottleneck import GRID, NARROW

LAYERS = ["fc1", "fc2", "fc3", "fc4"]
RATES, SEEDS = (0.02, 0.05, 0.1), 5
STEPS = [0, 100, 1_000, 2_000]
LOSSES = [2.0, 0.5, 0.005, 0.001]
"""All networks interpolate from the third checkpoint on."""


@dataclass(frozen=True)
class Made:
    """A quantity: exp(seed a + other b + lr c + noise) times level, a and b traits of a network.

    level: of the last checkpoint, or one of each layer.  start, first: the factor from the end to
    the start, and to the first checkpoint that interpolates.  wander: deviation of the logarithm of
    both.
    """

    level: float | tuple[float, ...] = 1.0
    seed: float = 0.0
    other: float = 0.0
    lr: float = 0.0
    noise: float = 0.05
    start: float = 1.0
    first: float = 1.0
    wander: float = 0.0


FOLLOWS = Made(seed=1)
PER_LAYER = {
    "feature_sensitivity": Made((1, 2, 3, 4), seed=1),
    "feature_mls": Made((1, 2, 3, 4), seed=1),
    "normalized_feature_mls": Made((1, 2, 3, 4), seed=1, first=1.3),
    "feature_dimension": Made((9, 8, 7, 3)),
    "collapse_within": Made((8, 4, 2, 1), seed=1, first=1.5),
    "linear_share_within": Made((1, 0.8, 0.5, 0.3)),
    "representation_violations": Made(0.0),
    "representation_bound_infinite": Made((300, 300, 300, 0)),
}
PER_LAYER_AND_DELTA = {
    "representativeness": Made(0.4, seed=1),
    "representativeness_by_folds": Made(0.4, seed=1, noise=0.1),
    "feature_robustness": Made(0.1),
    "feature_robustness_leading": Made(0.1),
}
OF_NETWORK = {
    "root_sharpness": Made(seed=1, noise=0.01),
    "g": Made(seed=1, noise=0.01),
    "penultimate_bound": Made(8, seed=1),
    "penultimate_bound_by_layer": Made(10, seed=1),
    "penultimate_bound_by_sharpness": Made(20, seed=1),
    "head_frobenius": Made(4, seed=1),
    "head_bound": Made(8, seed=1),
    "head_share": Made(0.2, start=2),
    "mls": Made(5),
    "local_dimension": Made(2),
}


def table(changes=None, seeds=SEEDS, losses=LOSSES):
    """120 networks: five widths with cross-entropy, three with half-mse, at three rates.

    changes: the quantities that are made in another way.
    """
    kinds = [(units, "cross-entropy") for units in (4, 8, 10, 32, 128)]
    kinds += [(units, "half-mse") for units in NARROW]
    rows = [(*kind, lr, seed) for kind, lr, seed in product(kinds, RATES, range(seeds))]
    units, loss, lr, seed = zip(*rows, strict=True)
    squared = {"cross-entropy": "", "half-mse": "squared-"}
    settings = [f"units{u}-{squared[of]}lr{rate}" for u, of, rate, _ in rows]
    made = {**PER_LAYER, **OF_NETWORK, **PER_LAYER_AND_DELTA, "generalization_gap": Made()}
    made |= changes or {}
    generator = np.random.default_rng(0)
    traits = generator.normal(size=(2, len(rows)))
    variables = {}
    for name, how in made.items():
        one = generator.normal(size=len(rows))
        two = np.where(np.arange(len(rows)) % 2, 1.0, -1.0)  # half of them on either side
        base = how.seed * traits[0] + how.other * traits[1] + how.lr * np.log(lr)
        base = base + how.noise * one
        start, first = (factor * np.exp(how.wander * two) for factor in (how.start, how.first))
        through = np.stack([start, np.full(len(rows), np.nan), first, np.ones(len(rows))], axis=1)
        through[:, 1] = np.sqrt(start * first)
        values = np.exp(base)[:, None] * through
        if name in PER_LAYER or name in PER_LAYER_AND_DELTA:
            values = values[:, :, None] * np.broadcast_to(how.level, len(LAYERS))
            variables[name] = (("run", "checkpoint", "layer"), values)
            if name in PER_LAYER_AND_DELTA:
                dims = ("run", "checkpoint", "layer", "delta_index")
                variables[name] = (dims, values[..., None])
        else:
            variables[name] = (("run", "checkpoint"), values * how.level)
    for name in (each for each in made if each.startswith("penultimate")):
        narrow = np.isin(units, NARROW)[:, None]
        variables[name] = (variables[name][0], np.where(narrow, variables[name][1], np.inf))
    every = xr.Dataset(variables).expand_dims(samples=["train"])
    every["train_loss"] = (("run", "checkpoint"), np.tile(losses, (len(rows), 1)))
    of_runs = {
        "run": [f"{name}-s{n}" for name, n in zip(settings, seed, strict=True)],
        **{"setting": settings, "seed": list(seed), "loss": list(loss), "lr": list(lr)},
        "diverged": np.zeros(len(rows), dtype=bool),
    }
    about = {
        **{"experiment": GRID, "scale": "demo", "evidence": "own", "differs": [], "left_out": 0},
        **{"name": GRID, "data": "made-up", "extent": f"{len(rows)} networks", "stands_in_for": ""},
        "hyperparameters": ["loss", "lr"],
    }
    coordinates = {name: ("run", values) for name, values in of_runs.items()}
    return every.assign_coords(
        coordinates | {"checkpoint": STEPS, "layer": LAYERS, "delta_index": ["0"]}
    ).assign_attrs(about)
