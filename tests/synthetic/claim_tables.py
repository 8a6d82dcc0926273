"""Synthetic tables that claims are judged by: training curves, networks at their end, a zoo.

They are made like real ones: five settings of 5 to 20 seeds, with noise and a spread of the seeds.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from tests.synthetic.tables import judged, table

S, MLS, NMLS, VOLUME, G = "root_sharpness", "mls", "nmls", "log_volume", "g"
DIMENSION, GAP, KAPPA = "local_dimension", "generalization_gap", "relative_flatness"
A, B, C, D = (f"bound_{letter}" for letter in "abcd")
BOUND, ACCURACY, LOSS, WEIGHTS = "nmls_bound", "test_accuracy", "train_loss", "weight_norm"
TEST_LOSS, MEAN_VOLUME = "test_loss", "log_mean_volume"
GRIDS = ("mlp-grid", "vgg-grid", "lenet-grid")
RATES_AND_BATCHES = ((0.05, 20), (0.1, 20), (0.2, 20), (0.1, 8), (0.1, 32))
SETTINGS = [{"lr": lr, "batch_size": batch_size} for lr, batch_size in RATES_AND_BATCHES]
SAMPLES = ["train", "test", "misclassified"]
STEPS = np.arange(24) * 5_000
BEGINS = 4  # the number of the checkpoint at which interpolation begins


@dataclass(frozen=True)
class Curve:
    """level + lr, batch (per step of the setting) + offset, mixed, ... (times the seed's spread).

    Of time in [0, 1]: ramp t, wave sin(10 pi t), decay exp(-4 t); mixed spreads the ramp, blurred
    the wave; first is added before interpolation begins, and first_mixed spreads it.
    """

    level: float = 20.0
    lr: float = 0.0
    batch: float = 0.0
    offset: float = 0.2
    ramp: float = 0.0
    mixed: float = 0.0
    wave: float = 0.0
    blurred: float = 0.0
    decay: float = 0.0
    first: float = 0.0
    first_mixed: float = 0.0
    noise: float = 0.02

    def values(self, c, of):
        """(runs, checkpoints).  c: columns of a table, of which `noise` is the seed's spread."""
        d, time = c["noise"][:, None], c["time"]
        level = self.level + self.lr * np.log2(c["lr"] / 0.1)
        level = level + self.batch * np.sign(c["batch_size"] - 20)
        curves = level[:, None] + self.offset * d + (self.ramp + self.mixed * d) * time
        curves = curves + self.decay * np.exp(-4 * time)
        curves = curves + (self.wave + self.blurred * d) * np.sin(10 * np.pi * time)
        curves[:, :BEGINS] += self.first + self.first_mixed * d
        return curves + self.noise * of.normal(size=curves.shape)


FALLS = Curve(lr=-1, batch=1, ramp=-2)
PLATEAU = Curve(lr=-1, batch=1, decay=3, wave=0.6)
RISES = Curve(ramp=2)
COMMON = {
    DIMENSION: Curve(wave=1, first=5),
    ACCURACY: Curve(level=90, lr=-1, batch=1),
    LOSS: Curve(level=0.005, offset=0, noise=1e-4),  # and 1 before interpolation
    WEIGHTS: Curve(level=2, offset=0.05, ramp=0.2),
    **{name: Curve(level=level) for name, level in ((A, 1), (B, 2), (C, 3))},
    **{(name, "test"): RISES for name in (S, MLS, NMLS, G)},
    **{(name, "misclassified"): replace(RISES, level=25) for name in (S, MLS, NMLS, G)},
    (VOLUME, "test"): Curve(ramp=-2),
    (VOLUME, "misclassified"): Curve(level=25, ramp=-2),
}
AS_PUBLISHED: dict[str, dict[Any, Curve]] = {
    "vgg-grid": {
        **dict.fromkeys((S, MLS, NMLS, G), FALLS),
        VOLUME: replace(FALLS, wave=0.3),
        D: replace(FALLS, level=60, ramp=-6),
        **COMMON,
    },
    "mlp-grid": {
        **dict.fromkeys((S, MLS, NMLS, G), PLATEAU),
        VOLUME: replace(PLATEAU, wave=0),
        D: replace(PLATEAU, level=60, decay=9, wave=1.8),
        **COMMON,
    },
}
"""The curves with which every claim about training holds."""


def trends(grid, changes=None, seeds=5):
    """Training curves.  changes: quantity, or (quantity, samples) -> fields of its curve."""
    noise = np.random.default_rng(0)
    curves = dict(AS_PUBLISHED.get(grid, AS_PUBLISHED["vgg-grid"]))
    curves |= {name: replace(curves[name], **change) for name, change in (changes or {}).items()}
    rules = {name: partial(curve.values, of=noise) for name, curve in curves.items()}
    rules[WEIGHTS] = lambda c: curves[WEIGHTS].values(c, noise)[..., None]
    how = {"seeds": seeds, "spread": 2 / (seeds - 1), "steps": STEPS, "samples": SAMPLES}
    made = table(grid, SETTINGS, rules, **how)
    made[LOSS][:, :BEGINS] = 1.0
    return made


PER_NETWORK = (S, MLS, NMLS, VOLUME, DIMENSION, GAP, KAPPA, D, BOUND, C, G, TEST_LOSS)
PER_NETWORK += (MEAN_VOLUME, "log_volume_bound", "network_log_volume", "network_log_volume_bound")
PER_NETWORK += ("elementwise_adaptive_trace", "normalized_mls", "input_invariant_mls")
PER_NETWORK += ("matrix_normalized_sharpness", "weighted_mls", "first_sharpness")
UP, DOWN, WEAK, NONE = 0.95, -0.95, 0.35, 0.0


def networks(grid="mlp-grid", seeds=20, **loadings):
    """Networks at the end of training; each quantity follows one factor as its loading says.

    The factor differs between settings and within them; without a loading the correlation is zero.
    """
    generator = np.random.default_rng(2)
    count = seeds * len(SETTINGS)

    def standard(values):
        return (values - values.mean()) / values.std()

    between = np.repeat(np.linspace(-1, 1, len(SETTINGS)), seeds)
    factor = standard(between + generator.normal(size=count))
    values = {}
    for name in PER_NETWORK:
        own = standard(generator.normal(size=count))
        own = standard(own - factor * (own @ factor) / count)
        loading = loadings.get(name, NONE)
        values[name] = 10 + loading * factor + np.sqrt(1 - loading**2) * own
    last, first = values[KAPPA], values["first_sharpness"] ** 2
    of_layers = {KAPPA: (0 * last, last), "sharpness_per_layer": (first, 9 * first)}
    values |= {name: np.stack(each, -1)[:, None] for name, each in of_layers.items()}
    values |= {A: 1.0, B: 2.0, "sharpness": 11 * first}
    values[LOSS] = 0.005 + 0.001 * generator.normal(size=count)
    rules = {name: lambda _, value=value: value for name, value in values.items()}
    return table(grid, SETTINGS, rules, seeds=seeds, steps=(100_000,), layers=("fc1", "fc2"))


FAMILIES = ["vit"] * 60 + ["mobilevit"] * 10 + ["fastvit"] * 4
FAMILIES += [f"family{number:02d}" for number in range(13) for _ in (0, 1)]


def zoo(slope=1.0, noise=0.3, mobile=(0.1, 20), fast=(20, 0.1), plain=0.0):
    """Networks whose log sharpness follows normalized MLS; two families are put elsewhere.

    mobile, fast: normalized MLS and sharpness of these, as factors.  plain: correlation without
    normalization.
    """
    generator = np.random.default_rng(0)
    count = len(FAMILIES)
    norm = generator.uniform(1, 5, count)
    sharpness = np.exp(slope * norm / 2 + noise * generator.normal(size=count))
    for family, (of_norm, of_sharpness) in (("mobilevit", mobile), ("fastvit", fast)):
        inside = np.array(FAMILIES) == family
        norm[inside] *= of_norm
        sharpness[inside] *= of_sharpness
    common, own = generator.normal(size=(2, count))
    own -= common * (own @ common) / (common @ common)
    values = {
        "normalized_mls": norm,
        "adaptive_sharpness": sharpness,
        "mls": common,
        "sharpness": np.exp(plain * common + np.sqrt(1 - plain**2) * own),
        "finite": np.ones(count),
        "dropped": np.zeros(count),
        **dict.fromkeys(("train_accuracy", "test_accuracy"), np.full(count, np.nan)),
        "sample_accuracy": np.linspace(70, 90, count),
    }
    values |= {f"{name}_error": 0.01 * abs(value) for name, value in values.items()}
    return xr.Dataset(
        {name: ("run", value) for name, value in values.items()},
        coords={
            "run": [f"network{number}" for number in range(count)],
            "family": ("run", np.array(FAMILIES, dtype=object)),
            "failure": ("run", np.array([""] * count, dtype=object)),
        },
        attrs={
            **{"scale": "paper", "experiment": "vision-zoo", "name": "timm-zoo"},
            **{"data": "imagenet", "extent": f"{count} networks", "stands_in_for": ""},
            **{"evidence": "own", "differs": []},
        },
    )


def outcomes(claim, make, cases):
    """The verdicts on a claim, for the tables that `make` gives for each case."""
    return [judged(claim, *make(case)).outcome for case in cases]
