"""The paper chen2026 and its figures; its preprint, chen2024, shares some of them."""

from typing import Any

from flatlab.plan import Curves, Own, Pairs, Paper, Scatter
from flatlab.plotting import captions

PAPER = Paper(
    title="A simple connection from loss flatness to compressed neural representations",
    citation="Chen, Recanatesi and Shea-Brown, 2026",
)

CENTRAL: dict[str, Any] = {"lr": 0.1, "batch_size": 20}
SWEEPS: dict[str, tuple[dict[str, Any], str]] = {
    "learning rates": ({"batch_size": 20}, captions.LEARNING_RATES),
    "batch sizes": ({"lr": 0.1}, captions.BATCH_SIZES),
}
"""What varies along the lines of a trend figure: what is fixed, and the sentence that says so."""

TRENDS = ("test_accuracy", "nmls", "root_sharpness", "log_volume", "mls", "local_dimension")
CORRELATED = (
    *("local_dimension", "root_sharpness", "log_volume", "mls", "nmls"),
    *("generalization_gap", "bound_d", "nmls_bound", "relative_flatness"),
)


def trends(
    grid: str, sweep: str, networks: str, quantities: tuple[str, ...] = TRENDS, *definitions: str
) -> Curves:
    """Sharpness and compression through training, at three learning rates or batch sizes.

    definitions: sentences of the caption about the quantities.
    """
    where, fixed = SWEEPS[sweep]
    before = (fixed, captions.TRAINING_SAMPLES, *definitions)
    return Curves(
        grid,
        quantities=quantities,
        where=where,
        title=f"sharpness and compression at three {sweep}, {networks}",
        caption=(*before, captions.OVER_SEEDS, captions.MARKS),
    )


def misclassified(*quantities: str) -> Curves:
    """Test samples and the misclassified ones among them."""
    return Curves(
        "vgg-grid",
        quantities=quantities,
        where=CENTRAL,
        samples=("test", "misclassified"),
        line="samples",
        title="sharpness and compression on test samples and on misclassified ones, VGG",
        caption=(captions.ONE_SETTING, captions.MISCLASSIFIED, captions.ONE_MARK),
    )


def pairs(grid: str, networks: str) -> Pairs:
    """The pair plot of one kind of network."""
    sentences = captions.AT_THE_END, captions.CORRELATION, captions.WITH_BOUNDS, captions.GAP
    title = f"sharpness, compression and generalization of {networks}"
    return Pairs(grid, quantities=CORRELATED, title=title, caption=sentences)


BOUNDS = Curves(
    "mlp-grid",
    quantities=("bound_d", "bound_c", "bound_b", "bound_a"),
    where=CENTRAL,
    line="quantity",
    axes={"MLS and its bounds (output/input)": "linear", "the same, log axis": "logarithmic"},
    title="MLS and its bounds A to D, multilayer perceptrons",
    caption=(captions.ONE_SETTING, captions.CHAIN_OF_BOUNDS, captions.ONE_MARK),
    size_inches=(11.0, 5.0),
)
"""The bounds of the MLS: chen2026_figH6, and chen2024_figD4."""

FIGURES = {
    "fig2": trends("vgg-grid", "learning rates", "VGG"),
    "fig3": trends("vgg-grid", "batch sizes", "VGG"),
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
            "One point per network; bars are standard errors over samples and draws; a sigmoid is "
            "appended to each network. Left: elementwise-adaptive sharpness, logarithmic, against "
            "mean |x|² |J|² with the norm of the Jacobian by a Krylov iteration. Right: the same "
            "pair without normalization, S against MLS. Correlations with the logarithm of the "
            "ordinate, with 95 % intervals in brackets (jackknife over families, on Fisher's z): "
            "over all networks (Pearson's and of ranks), within families, and between families."
        ),
        size_inches=(11.0, 5.6),
    ),
    "figH6": BOUNDS,
    "figH7": pairs("vgg-grid", "VGG networks"),
    "figH8": pairs("mlp-grid", "multilayer perceptrons"),
    "figH9": pairs("lenet-grid", "LeNet networks"),
    "figI10": trends("mlp-grid", "batch sizes", "multilayer perceptrons"),
    "figI11": trends("mlp-grid", "learning rates", "multilayer perceptrons"),
    "figJ12": misclassified("test_loss", "root_sharpness", "log_volume", "mls", "local_dimension"),
}
