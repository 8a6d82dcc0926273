"""The paper chen2024 and its figures."""

from flatlab.lab.figures import captions
from flatlab.lab.plan import Matrix, Paper
from flatlab.papers.chen2026 import figures as chen2026

PAPER = Paper(
    title="A simple connection from loss flatness to compressed representations in neural networks",
    citation="Chen, Recanatesi and Shea-Brown, 2024; the preprint of chen2026",
    cited="Chen et al. (2024)",
    publication=True,
)

COMPRESSION = ("root_sharpness", "log_volume", "g", "local_dimension")
TRENDS = (("train_loss", "test_accuracy", *COMPRESSION), captions.G)
CORRELATED = ("local_dimension", "root_sharpness", "log_volume", "g", "mls", "test_loss")

DECIDE = (
    *(("root_sharpness", name) for name in ("mls", "log_volume", "test_loss")),
    *(("test_loss", name) for name in ("mls", "log_volume", "local_dimension", "bound_d")),
    *(("log_volume", "mls"), ("g", "mls"), ("mls", "bound_c"), ("mls", "bound_d")),
)
"""The correlations of the pair plots that decide claims."""


def pairs(grid: str, networks: str, means: str, *bounds: str) -> Matrix:
    """The pair plot of one kind of network.  means: the sentence that says what is averaged."""
    return Matrix(
        grid,
        quantities=(*CORRELATED, *bounds),
        seeds=(0, 1, 2, 3),
        pairs=tuple(("root_sharpness", y) for y in ("mls", "log_volume", "test_loss")),
        framed=DECIDE,
        title=f"sharpness, compression and test loss of {networks}",
        caption=("Each point is one trained network, seeds 0-3 of every setting.", captions.PAIRS),
        details=(means, captions.G, captions.INTERVALS),
    )


FIGURES = {
    "fig1": chen2026.trends("vgg-grid", "learning rates", "VGG", *TRENDS),
    "fig2": chen2026.trends("vgg-grid", "batch sizes", "VGG", *TRENDS),
    "fig3": chen2026.misclassified("train_loss", "test_loss", *COMPRESSION),
    "figD4": chen2026.BOUNDS,
    "figD5": pairs("vgg-grid", "VGG networks", captions.TRAINING_SAMPLES),
    "figD6": pairs(
        "mlp-grid", "multilayer perceptrons", captions.WITH_BOUNDS, "bound_c", "bound_d"
    ),
    "figE7": chen2026.trends("mlp-grid", "batch sizes", "multilayer perceptrons", *TRENDS),
    "figE8": chen2026.trends("mlp-grid", "learning rates", "multilayer perceptrons", *TRENDS),
}
