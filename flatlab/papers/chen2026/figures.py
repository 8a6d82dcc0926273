"""What chen2026 is, and its figures."""

from typing import Any

from flatlab.papers.chen2026._declared import BOUNDS, MISCLASSIFIED
from flatlab.plan import Curves, Own, Pairs, Paper, Scatter
from flatlab.plotting import captions

PAPER = Paper(
    title="A simple connection from loss flatness to compressed neural representations",
    citation="Chen, Recanatesi and Shea-Brown, 2026",
    targets=(
        *("fig2", "fig3", "fig4", "fig5"),
        *("figH6", "figH7", "figH8", "figH9", "figI10", "figI11", "figJ12"),
    ),
)

TRENDS = ("test_accuracy", "nmls", "root_sharpness", "log_volume", "mls", "local_dimension")
TRENDS_CAPTION = (captions.TRAINING_SAMPLES, captions.OVER_SEEDS, captions.MARKS)
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
CORRELATED: dict[str, Any] = {
    "quantities": (
        *("local_dimension", "root_sharpness", "log_volume", "mls", "nmls"),
        *("generalization_gap", "bound_d", "nmls_bound", "relative_flatness"),
    ),
    "caption": (
        captions.AT_THE_END,
        captions.CORRELATION,
        captions.WITH_BOUNDS,
        captions.GAP,
    ),
}

FIGURES = {
    "fig2": Curves(
        "vgg-grid", title="sharpness and compression at three learning rates, VGG", **RATES
    ),
    "fig3": Curves(
        "vgg-grid", title="sharpness and compression at three batch sizes, VGG", **BATCHES
    ),
    "fig4": Scatter(
        ("vgg-grid", "mlp-grid", "lenet-grid"),
        pairs=(("mls", "bound_d"), ("nmls", "nmls_bound")),
        title="local sensitivity against its bounds",
        caption=(
            captions.AT_THE_END,
            captions.CORRELATION,
            "Bounds use the largest singular value of a kernel's matrix; they are theorems for "
            "perceptrons and proxies where convolutions share weights.",
        ),
    ),
    "fig5": Own(
        "vision-zoo",
        title="adaptive sharpness against normalized MLS",
        caption=(
            "One point per network, bars are standard errors over samples and draws; a sigmoid is "
            "appended to each network. Left: elementwise-adaptive sharpness, logarithmic, against "
            "mean |x|² |J|² with the norm of the Jacobian by a Krylov iteration. Right: the pair "
            "without normalization, S against MLS. Correlations with the logarithm of the "
            "ordinate, with their 95 % intervals in brackets (BCa bootstrap over networks; between "
            "families over families): of all networks (Pearson's and of ranks), within families, "
            "and of the families' means."
        ),
        size_inches=(11.0, 5.6),
    ),
    "figH6": Curves("mlp-grid", **BOUNDS),
    "figH7": Pairs(
        "vgg-grid",
        title="sharpness, compression and generalization of VGG networks",
        **CORRELATED,
    ),
    "figH8": Pairs(
        "mlp-grid",
        title="sharpness, compression and generalization of multilayer perceptrons",
        **CORRELATED,
    ),
    "figH9": Pairs(
        "lenet-grid",
        title="sharpness, compression and generalization of LeNet networks",
        **CORRELATED,
    ),
    "figI10": Curves(
        "mlp-grid",
        title="sharpness and compression at three batch sizes, multilayer perceptrons",
        **BATCHES,
    ),
    "figI11": Curves(
        "mlp-grid",
        title="sharpness and compression at three learning rates, multilayer perceptrons",
        **RATES,
    ),
    "figJ12": Curves(
        "vgg-grid",
        quantities=("test_loss", "root_sharpness", "log_volume", "mls", "local_dimension"),
        **MISCLASSIFIED,
    ),
}
