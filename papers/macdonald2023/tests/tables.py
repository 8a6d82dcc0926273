"""Synthetic tables of the grids of macdonald2023, with which its claims hold."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from flatlab.papers.macdonald2023.claims import CLAIMS, DECAYS, RATES, REGULARIZERS, STRATEGIES
from flatlab.papers.macdonald2023.claims_training import FULL_BATCH, SCALED, SCALES, SGD, VALUES
from flatlab.papers.macdonald2023.norms import INITIALIZATIONS
from tests.synthetic.tables import Rule, one, table

J, SOFTMAXED, SHARPNESS = "jacobian_norm", "softmax_jacobian_norm", "hessian_lambda_max"
GAP, LOSS, OUTPUTS, FEATURES = "absolute_loss_gap", "train_loss", "output_norm", "feature_norm"
GAUSS_NEWTON, FIRST_LAYER = "gauss_newton_lambda_max", "weight_norm"
CONVERGED = {"hessian_converged": one, "gauss_newton_converged": one}
Rules = Mapping[str, Rule]


def seeds_alone(c):
    return 5 + c["noise"]


def product_of(**factors):
    """All combinations."""
    return [dict(zip(factors, v, strict=True)) for v in itertools.product(*factors.values())]


# Learning rates and batch sizes


def small(c):
    """Falls with the learning rate and rises with the batch size."""
    return 3 - np.log10(c["lr"]) + np.log2(c["batch_size"]) / 10 + c["noise"]


def large(c):
    return 20 - small(c)


def turned(c):
    """Small, but for ResNets at the largest learning rate, where it falls with the batch size."""
    there = (c["lr"] == 0.1) & (c["architecture"] == "resnet")
    return np.where(there, 4.6 - np.log2(c["batch_size"]) / 10 - c["noise"], small(c))


def mixed(c):
    """Neither rises nor falls in order."""
    return 5 + 100 * c["noise"] * np.where(np.log2(c["batch_size"]) % 2 == 0, 1, -1)


def rates(rules=None, grid=RATES):
    sizes = [64, 128, 256, 512, 1024]
    settings = product_of(architecture=["resnet", "vgg"], lr=[0.1, 0.01, 0.001], batch_size=sizes)
    made = {SHARPNESS: small, GAP: small, J: turned, **CONVERGED, **(rules or {})}
    return table(grid, settings, made)


# Regularizers


def strength(c):
    return np.sum([c[name] for name in STRATEGIES], axis=0)


def all_regularize(c):
    return 5 - strength(c) + c["noise"] - c["lr"]


def only_sam(c):
    return 5 + strength(c) - 2 * c["sam_radius"] + c["noise"]


def against(c):
    return 5 + strength(c) + c["noise"]


def random(c):
    return np.random.default_rng(1).uniform(5, 6, len(c["lr"]))


REGULARIZED = {
    J: all_regularize,
    GAP: lambda c: all_regularize(c) + 0.01 * np.cos(np.arange(len(c["lr"]))),
    SHARPNESS: only_sam,
    GAUSS_NEWTON: lambda c: 1.02 * only_sam(c),
    LOSS: lambda c: 0.001 + 0.01 * c["noise"],
    **CONVERGED,
}


def strategies(rules=None, grid=REGULARIZERS):
    chosen = [{}, *({name: s} for name in STRATEGIES for s in (0.1, 0.2, 0.4))]
    settings = [
        {"architecture": a, "normalization": n, "lr": lr, **dict.fromkeys(STRATEGIES, 0.0), **each}
        for a in ("vgg", "resnet")
        for n in ("none", "batch")
        for lr in (0.1, 0.03)
        for each in chosen
    ]
    return table(grid, settings, {**REGULARIZED, **(rules or {})})


def gap_of_decay(c):
    best = {1e-4: 0.5, 1e-3: 1.0, 0.0: 2.0}
    return np.array([best[decay] for decay in c["weight_decay"].tolist()]) + c["noise"]


def decays(rules=None):
    settings = product_of(lr=(0.1, 0.03), weight_decay=(0.0, 1e-4, 1e-3))
    with_decay = {
        **{GAP: gap_of_decay, J: gap_of_decay, **CONVERGED},
        SHARPNESS: lambda c: 1 + 1e4 * c["weight_decay"] + c["noise"],
        LOSS: lambda c: 0.001 + 10 * c["weight_decay"] + 0.01 * c["noise"],
    }
    return table(DECAYS, settings, {**with_decay, **(rules or {})})


# Curves: levels are the largest values, by the smoothing of labels or the scale of inputs

Levels = Mapping[str, Sequence[float]]
LEVELS = {SOFTMAXED: (9, 6, 3), SHARPNESS: (30, 20, 10)}
STEPS, STOPPED = range(0, 101, 10), 60
"""Networks with unsmoothed labels stop at step 60."""


def at(values, along, known, c):
    """The value of each network's level, spread by its seed: (runs, 1)."""
    return (np.array(values)[np.searchsorted(known, c[along])] * (1 + c["noise"]))[:, None]


def full_batch(levels=None, start=2.0):
    """All quantities rise to their levels until the unsmoothed networks stop, and on from there."""

    def rule(values):
        def curve(c):
            level = at(values, "label_smoothing", VALUES, c)
            rise = np.minimum(c["time"] * STEPS[-1] / STOPPED, 1)
            # smoothed networks are trained on, which no claim looks at
            on = (c["label_smoothing"] > 0)[:, None] & (c["time"] * STEPS[-1] > STOPPED)
            return np.where(on, 1e3, start + (level - start) * rise)

        return curve

    rates, kinds = (0.08, 0.04, 0.02), ("vgg", "resnet")
    settings = product_of(architecture=kinds, lr=rates, label_smoothing=VALUES)
    none = dict.fromkeys(("pairs_below", "segments_below"), lambda _: 0)
    rules = {name: rule(values) for name, values in {**LEVELS, **(levels or {})}.items()}
    unsmoothed = {
        "steps": lambda c: np.where(c["label_smoothing"] == 0, STOPPED, STEPS[-1]),
        "ended": lambda c: np.where(
            (c["label_smoothing"] == 0) & (c["seed"] > 0), "stopped", "finished"
        ).astype(object),
    }
    return table(
        *(FULL_BATCH, settings, {**rules, **none, **CONVERGED}),
        **{"steps": STEPS, "spread": 0.02, "coordinates": unsmoothed},
    )


def sgd(levels=None, ends=None):
    """Curves that reach their level in the first epoch.  ends: as shares of it, by smoothing."""
    shares = {SHARPNESS: (0.001, 0.5, 0.5), SOFTMAXED: (0.01, 0.5, 0.5), OUTPUTS: (9.0, 2.0, 1.5)}
    shares |= ends or {}

    def rule(name, values):
        def curve(c):
            level = at(values, "label_smoothing", VALUES, c)
            share = at(shares[name], "label_smoothing", VALUES, c)
            way = c["time"] if name == OUTPUTS else np.minimum(c["time"] / 0.9, 1)
            return level * (1 + (share - 1) * way)

        return curve

    levels = {**LEVELS, OUTPUTS: (1.0, 1.0, 1.0), **(levels or {})}
    rules = {name: rule(name, values) for name, values in levels.items()}
    settings = [{"label_smoothing": smoothing} for smoothing in VALUES]
    return table(SGD, settings, {**rules, **CONVERGED}, steps=range(0, 910, 10), spread=0.02)


SCALED_LEVELS = {SOFTMAXED: (9, 6, 3), SHARPNESS: (2, 3, 4), FEATURES: (20, 30, 40)}


def scales(levels=None, start=None, activations=("relu", "tanh")):
    """Quantities rise linearly from `start` to their levels, at three scales of the inputs."""

    def rule(name, values):
        def curve(c):
            first = at(
                (start or {}).get(name, (1, 1, 1)), "scale", SCALES, {**c, "noise": 0 * c["noise"]}
            )
            made = first + (at(values, "scale", SCALES, c) - first) * c["time"]
            if name != FEATURES:
                return made
            inputs = np.full_like(made, 99.0)  # the first layer's, which are no features
            return np.stack([inputs, made / 2, made], axis=-1)

        return curve

    settings = product_of(activation=activations, scale=SCALES)
    rules = {name: rule(name, v) for name, v in {**SCALED_LEVELS, **(levels or {})}.items()}
    return table(
        *(SCALED, settings, {**rules, **CONVERGED}),
        **{"seeds": 6, "steps": range(7), "layers": ["fc1", "fc2", "fc3"], "spread": 0.04},
    )


# Eight points

Means = Mapping[str, tuple[float, float]]
"""By quantity: the mean over networks of high frequency, and over those of low."""

POINTS = {
    "regression-gaussian-grid": {J: (327, 84), SHARPNESS: (13500, 18400), FIRST_LAYER: (9.1, 0.56)},
    "regression-relu-grid": {J: (122, 43), SHARPNESS: (14200, 9900), FIRST_LAYER: (9.6, 9.5)},
}


def points(grid, means=None):
    """Ten networks from each initialization, whose quantities are 5 % around their means."""
    names = [*INITIALIZATIONS[grid].values()]

    def rule(name, pair):
        def of_networks(c):
            made = np.where(c["initialization"] == names[0], *pair) * (1 + c["noise"])
            return np.stack([made, 0 * made + 7], -1)[:, None] if name == FIRST_LAYER else made

        return of_networks

    rules = {name: rule(name, pair) for name, pair in {**POINTS[grid], **(means or {})}.items()}
    return table(
        *(grid, [{"initialization": name} for name in names], {**rules, **CONVERGED}),
        **{"seeds": 10, "layers": ["fc1", "fc2"], "spread": 0.1 / 9},
    )


def ends(shares):
    return sgd(ends=shares)


def one_pair(of):
    made = full_batch()
    if of:
        made[of][4, 2] = 1
    return made


def claim_of(name):
    figure, key = name.split("/")
    return CLAIMS[figure][key]
