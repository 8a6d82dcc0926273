"""Synthetic tables of `bottleneck-grid`: what is measured of representations, made up."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from flatlab.papers.beyond._bottleneck import GRID, NARROW
from tests.synthetic.tables import table as synthetic

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
    kinds = [(units, "cross-entropy", "") for units in (4, 8, 10, 32, 128)]
    kinds += [(units, "half-mse", "squared-") for units in NARROW]
    settings = [{"loss": loss, "lr": lr} for (_, loss, _), lr in product(kinds, RATES)]
    names = [f"units{units}-{loss}lr{lr}" for (units, _, loss), lr in product(kinds, RATES)]
    wide = np.repeat([units not in NARROW for units, *_ in kinds], len(RATES) * seeds)
    generator, count = np.random.default_rng(0), len(wide)
    traits = generator.normal(size=(2, count))
    two = np.where(np.arange(count) % 2, 1.0, -1.0)  # half of them on either side

    def rule(name, how):
        def values(c):
            base = how.seed * traits[0] + how.other * traits[1] + how.lr * np.log(c["lr"])
            base = base + how.noise * generator.normal(size=count)
            start, first = (factor * np.exp(how.wander * two) for factor in (how.start, how.first))
            through = np.stack([start, np.sqrt(start * first), first, np.ones(count)], axis=1)
            made = np.exp(base)[:, None] * through
            made[wide & name.startswith("penultimate")] = np.inf
            of_layers = name in PER_LAYER or name in PER_LAYER_AND_DELTA
            return made[:, :, None] * np.resize(how.level, 4) if of_layers else made * how.level

        return values

    made = {**PER_LAYER, **OF_NETWORK, **PER_LAYER_AND_DELTA, "generalization_gap": Made()}
    rules = {name: rule(name, how) for name, how in {**made, **(changes or {})}.items()}
    every = synthetic(
        *(GRID, settings, {**rules, "train_loss": lambda _: np.array([losses])}),
        **{"seeds": seeds, "steps": STEPS, "layers": LAYERS, "data": "made-up"},
        coordinates={"setting": lambda _: np.repeat(names, seeds)},
        **{"extent": f"{count} networks", "stands_in_for": ""},
    )
    with_delta = {name: every[name].expand_dims(delta_index=["0"]) for name in PER_LAYER_AND_DELTA}
    return every.assign(with_delta)
