"""What chen2024 is, and its figures."""

from flatlab.papers.chen2026._declared import BOUNDS, misclassified, trends
from flatlab.plan import Pairs, Paper
from flatlab.plotting import captions

PAPER = Paper(
    title="A simple connection from loss flatness to compressed representations in neural networks",
    citation="Chen, Recanatesi and Shea-Brown, 2024; the preprint of chen2026",
    targets=("fig1", "fig2", "fig3", "figD4", "figD5", "figD6", "figE7", "figE8"),
)

COMPRESSION = ("root_sharpness", "log_volume", "g", "local_dimension")
TRENDS = (("train_loss", "test_accuracy", *COMPRESSION), captions.G)
CORRELATED = ("local_dimension", "root_sharpness", "log_volume", "g", "mls", "test_loss")

SEEDS = (0, 1, 2, 3)

FIGURES = {
    "fig1": trends("vgg-grid", "learning rates", "VGG", *TRENDS),
    "fig2": trends("vgg-grid", "batch sizes", "VGG", *TRENDS),
    "fig3": misclassified("train_loss", "test_loss", *COMPRESSION),
    "figD4": BOUNDS,
    "figD5": Pairs(
        "vgg-grid",
        quantities=CORRELATED,
        seeds=SEEDS,
        title="sharpness, compression and test loss of VGG networks",
        caption=(captions.FOUR_SEEDS, captions.CORRELATION, captions.TRAINING_SAMPLES, captions.G),
        size_inches=(10.0, 10.0),
    ),
    "figD6": Pairs(
        "mlp-grid",
        quantities=(*CORRELATED, "bound_c", "bound_d"),
        seeds=SEEDS,
        title="sharpness, compression and test loss of multilayer perceptrons",
        caption=(captions.FOUR_SEEDS, captions.CORRELATION, captions.WITH_BOUNDS, captions.G),
        size_inches=(12.0, 12.0),
    ),
    "figE7": trends("mlp-grid", "batch sizes", "multilayer perceptrons", *TRENDS),
    "figE8": trends("mlp-grid", "learning rates", "multilayer perceptrons", *TRENDS),
}
