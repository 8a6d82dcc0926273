"""Rules of training and networks that every mode must follow."""

import numpy as np

from flatlab.core.registry import literal
from flatlab.lab.plan import keys_of
from tests.lab.train.packs import only, settings

EXACT = 1e-10

ARCHITECTURES = [
    name for name in keys_of("networks") if literal("networks", name, "MODE") != "loop"
]

RATES = {"low": 0.0005, "high": 0.075}

STEPS = {"schedule": "step", "milestones": [0.3, 0.6], "decay": 0.2}
OWN_RATES = {"lr": {"low": 0.002, "high": 0.04}}
GHOST_BATCHES = {"minibatches": "full", "batch_size": 9, "iterations": 20}
SUM_OF_SQUARES = {"loss": "sum-of-squares", "lr": 0.001}
RMSPROP = {"optimizer": "rmsprop", "alpha": 0.9, "lr": 0.001}
BY_DEPTH = {"optimizer": "sgd-by-depth"}

RULES = {
    "plain": {},
    "momentum and decay": {"momentum": 0.9, "weight_decay": 1e-3, "lr": 0.005},
    "steps": {**STEPS, "momentum": 0.5},
    "adam": {"optimizer": "adam", "lr": 0.002, "weight_decay": 1e-3},
    "rmsprop": {**RMSPROP, "weight_decay": 1e-3},
    "adam with rates of their own": {"optimizer": "adam", "lr": {"low": 0.0005, "high": 0.004}},
    "cosine": {"schedule": "cosine", "lr": 0.05},
    "rmsprop with rates of their own": {
        **{**RMSPROP, "alpha": 0.99, "momentum": 0.5},
        "lr": {"low": 0.0002, "high": 0.001},
    },
    "another rate above": {**BY_DEPTH, "upper_factor": 4.0},
    "another rate above, of their own": {**BY_DEPTH, "upper_factor": 0.3, **OWN_RATES},
    "warm-up": {"schedule": "warmup-linear", "warmup": 0.4, "loss": "mean-mse"},
    "smoothed cross-entropy": {"loss": "cross-entropy", "label_smoothing": 0.2},
    "full batch in ghost batches": GHOST_BATCHES,
    "replacement": {"minibatches": "replacement", "loss": "cross-entropy"},
    "torch's replacement": {"minibatches": "torch-replacement", "loss": "cross-entropy"},
    "rates of their own": {**OWN_RATES, "momentum": 0.5},
    "falling rates of their own": {**OWN_RATES, **STEPS},
    "sum of squares": {**SUM_OF_SQUARES, "momentum": 0.9},
    "sum of squares in ghost batches": {**SUM_OF_SQUARES, **GHOST_BATCHES},
}

LARGE = (3, 32, 32)

VGG11 = {"widths": [2, "pool", 4, "pool", 8, 8, "pool", 16, 16, "pool", 16, 16, "pool"]}
OF_THE_AUTHORS = {"widths": [16, "pool", 16, "pool", 32, "pool", 64, "pool", 64, "pool"]}
PLAIN, PRE = {"normalization": "none"}, {"order": "pre"}

NETWORKS = {
    "linear": ("linear", {}, (8, 8)),
    "diagonal-linear": ("diagonal-linear", {}, (8, 8)),
    "perceptron of one layer": ("mlp", {"depth": 1}, (8, 8)),
    "perceptron of three layers": ("mlp", {"width": 32, "depth": 3}, (8, 8)),
    "perceptron of several widths": ("mlp", {"width": [50, 20, 30]}, (8, 8)),
    "LeNet-5": ("lenet5", {"kernel": 5, "padding": 0}, LARGE),
    "LeNet-5 of small images": ("lenet5", {}, (8, 8)),
    "VGG-11": ("vgg", VGG11, LARGE),
    "VGG of the authors": ("vgg", {**OF_THE_AUTHORS, "hidden": [128], "padding": 2}, LARGE),
    "VGG of small images": ("vgg", {}, (8, 8)),
    "VGG without pooling": ("vgg", {"widths": [3, 4]}, (8, 8)),
    "VGG with batch norm": ("vgg", {"normalization": "batch"}, (8, 8)),
    "ResNet-18": ("resnet", {"widths": [2, 4, 4, 6]}, LARGE),
    "ResNet of small images": ("resnet", {}, (8, 8)),
    "ResNet without normalization": ("resnet", PLAIN, (8, 8)),
    "preactivation ResNet": ("resnet", PRE, (8, 8)),
    "preactivation ResNet without normalization": ("resnet", {**PRE, **PLAIN}, (8, 8)),
}
"""Every architecture, with few channels: the layers of large ones, seconds instead of hours."""


def weights(raw, *args, **kwargs):
    return only(raw, settings(*args, **kwargs)).weights[0]


def assert_equal(found, expected, exact=EXACT):
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert np.isfinite(array).all(), name
        np.testing.assert_allclose(
            found[name], array, rtol=0, atol=exact, equal_nan=False, err_msg=name
        )
