"""What chen2024 is, and its figures."""

from typing import Any

from flatlab.papers.chen2026._declared import BOUNDS, MISCLASSIFIED
from flatlab.plan import Curves, Pairs, Paper
from flatlab.plotting import captions

PAPER = Paper(
    title="A simple connection from loss flatness to compressed representations in neural networks",
    citation="Chen, Recanatesi and Shea-Brown, 2024; the preprint of chen2026",
    targets=("fig1", "fig2", "fig3", "figD4", "figD5", "figD6", "figE7", "figE8"),
)

TRENDS = ("train_loss", "test_accuracy", "root_sharpness", "log_volume", "g", "local_dimension")
TRENDS_CAPTION = (
    captions.TRAINING_SAMPLES,
    captions.G,
    captions.OVER_SEEDS,
    captions.MARKS,
)
RATES: dict[str, Any] = {
    "where": {"batch_size": 20},
    "quantities": TRENDS,
    "caption": (captions.LEARNING_RATES, *TRENDS_CAPTION),
}
BATCHES: dict[str, Any] = {
    "where": {"lr": 0.1},
    "quantities": TRENDS,
    "caption": (captions.BATCH_SIZES, *TRENDS_CAPTION),
}
CORRELATED = ("local_dimension", "root_sharpness", "log_volume", "g", "mls", "test_loss")

FIGURES = {
    "fig1": Curves(
        "vgg-grid", title="sharpness and compression at three learning rates, VGG", **RATES
    ),
    "fig2": Curves(
        "vgg-grid", title="sharpness and compression at three batch sizes, VGG", **BATCHES
    ),
    "fig3": Curves(
        "vgg-grid",
        quantities=("train_loss", "test_loss", *TRENDS[2:]),
        **MISCLASSIFIED,
    ),
    "figD4": Curves("mlp-grid", **BOUNDS),
    "figD5": Pairs(
        "vgg-grid",
        quantities=CORRELATED,
        seeds=(0, 1, 2, 3),
        title="sharpness, compression and test loss of VGG networks",
        caption=(captions.FOUR_SEEDS, captions.CORRELATION, captions.TRAINING_SAMPLES, captions.G),
        size_inches=(10.0, 10.0),
    ),
    "figD6": Pairs(
        "mlp-grid",
        quantities=(*CORRELATED, "bound_c", "bound_d"),
        seeds=(0, 1, 2, 3),
        title="sharpness, compression and test loss of multilayer perceptrons",
        caption=(captions.FOUR_SEEDS, captions.CORRELATION, captions.WITH_BOUNDS, captions.G),
        size_inches=(12.0, 12.0),
    ),
    "figE7": Curves(
        "mlp-grid",
        title="sharpness and compression at three batch sizes, multilayer perceptrons",
        **BATCHES,
    ),
    "figE8": Curves(
        "mlp-grid",
        title="sharpness and compression at three learning rates, multilayer perceptrons",
        **RATES,
    ),
}
