"""The paper chen2026 and its figures; its preprint, chen2024, shares some of them."""

from typing import Any

from flatlab.lab.figures import captions
from flatlab.lab.plan import Curves, CustomFigure, Matrix, Pairs, Paper

PAPER = Paper(
    title="A simple connection from loss flatness to compressed neural representations",
    citation="Chen, Recanatesi and Shea-Brown, 2026",
    cited="Chen et al. (2026)",
    publication=True,
)

CENTRAL: dict[str, Any] = {"lr": 0.1, "batch_size": 20}
SWEEPS: dict[str, tuple[dict[str, Any], str]] = {
    "learning rates": ({"batch_size": 20}, "Batch size 20."),
    "batch sizes": ({"lr": 0.1}, "Learning rate 0.1."),
}
"""What varies along the lines of a trend figure: what is fixed, and the sentence that says so."""

TRENDS = ("test_accuracy", "nmls", "root_sharpness", "log_volume", "mls", "local_dimension")
CORRELATED = (
    *("local_dimension", "root_sharpness", "log_volume", "mls", "nmls"),
    *("generalization_gap", "bound_d", "nmls_bound", "relative_flatness"),
)

DECIDE = (
    *(("root_sharpness", name) for name in ("mls", "nmls", "log_volume", "generalization_gap")),
    *(("generalization_gap", name) for name in ("mls", "nmls", "nmls_bound", "relative_flatness")),
    *(("mls", "bound_d"), ("nmls", "nmls_bound"), ("log_volume", "mls")),
    ("root_sharpness", "local_dimension"),
)
"""The correlations of the pair plots that decide claims."""


def trends(
    grid: str, sweep: str, networks: str, quantities: tuple[str, ...] = TRENDS, *definitions: str
) -> Curves:
    """Sharpness and compression through training, at three learning rates or batch sizes.

    definitions: sentences about the quantities.
    """
    where, fixed = SWEEPS[sweep]
    return Curves(
        grid,
        quantities=quantities,
        where=where,
        title=f"sharpness and compression at three {sweep}, {networks}",
        caption=(captions.OVER_SEEDS, captions.MARKS, fixed),
        details=(captions.TRAINING_SAMPLES, *definitions, captions.BEGINS),
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
        caption=(
            "Test samples, and those that a network misclassifies at the time.",
            captions.OVER_SEEDS,
            captions.MARKS,
            captions.CENTRAL,
        ),
        details="Losses are computed on the whole sets; the other quantities are means over fixed "
        "test samples, and over those that a network misclassifies at that checkpoint. A network "
        "that misclassifies none is left out of the median; a gap means that no network "
        "misclassifies any.",
    )


def pairs(grid: str, networks: str) -> Matrix:
    """The pair plot of one kind of network."""
    return Matrix(
        grid,
        quantities=CORRELATED,
        labels={"generalization_gap": "accuracy gap (points)"},
        pairs=tuple(("root_sharpness", y) for y in ("mls", "log_volume", "generalization_gap")),
        framed=DECIDE,
        title=f"sharpness, compression and generalization of {networks}",
        caption=(captions.AT_THE_END, captions.PAIRS, captions.KAPPA),
        details=(
            captions.WITH_BOUNDS,
            "The gap is training minus test accuracy, in percentage points; relative flatness is "
            "that of the last layer.",
            captions.INTERVALS,
        ),
    )


BOUNDS = Curves(
    "mlp-grid",
    quantities=("bound_d", "bound_c", "bound_b", "bound_a"),
    where=CENTRAL,
    line="quantity",
    labels={
        "bound_a": "A, the MLS",
        "bound_b": "B, by the first layer's gradients",
        "bound_c": "C, by the first layer's sharpness",
        "bound_d": "D, by the network's sharpness",
    },
    axes={"MLS and its bounds (output/input)": "linear", "the same (output/input)": "logarithmic"},
    title="MLS and its bounds A to D, multilayer perceptrons",
    caption=(
        "A is the maximum local sensitivity (MLS), which B, C and D bound in turn.",
        captions.OVER_SEEDS,
        captions.MARKS,
        captions.CENTRAL,
    ),
    details="Means over fixed training samples (Eq. 59 of chen2026).",
    size_inches=(7.1, 3.4),
)
"""The bounds of the MLS: chen2026_figH6, and chen2024_figD4."""

SENSITIVITY = Pairs(
    ("vgg-grid", "mlp-grid", "lenet-grid"),
    pairs=(("mls", "bound_d"), ("nmls", "nmls_bound")),
    equality=True,
    title="local sensitivity against its bounds",
    caption=(
        captions.AT_THE_END,
        "On the line a bound equals its value; with shared weights it does not bound.",
    ),
    details=(
        "Bounds use the largest singular value of a kernel's matrix; they are theorems for "
        "perceptrons and proxies where convolutions share weights. Pearson's correlation with its "
        "95 % interval.",
        captions.INTERVALS,
    ),
)

FIGURES = {
    "fig2": trends("vgg-grid", "learning rates", "VGG"),
    "fig3": trends("vgg-grid", "batch sizes", "VGG"),
    "fig4": SENSITIVITY,
    "fig5": CustomFigure(
        "vision-zoo",
        columns=("normalized_mls", "adaptive_sharpness", "mls", "sharpness"),
        title="adaptive sharpness against normalized MLS",
        caption=(
            "Pale: networks, with 95 % intervals; an arrow: it goes on below. Blue: the medians of "
            "families. (a) Elementwise-adaptive sharpness against normalized MLS; (b) the same "
            "pair without normalization. Above: Pearson's correlations with 95 % intervals."
        ),
        details=(
            "A sigmoid is appended to each network. Normalized MLS is the mean of |x|² |J|², with "
            "the norm of the Jacobian by a Krylov iteration; intervals are 1.96 standard errors "
            "over samples and draws. Correlations are with the logarithm of the ordinate, over all "
            "networks (Pearson's and of ranks), within and between families; their intervals: "
            "jackknife over families, on Fisher's z."
        ),
        size_inches=(7.1, 5.0),
    ),
    "figH6": BOUNDS,
    "figH7": pairs("vgg-grid", "VGG networks"),
    "figH8": pairs("mlp-grid", "multilayer perceptrons"),
    "figH9": pairs("lenet-grid", "LeNet networks"),
    "figI10": trends("mlp-grid", "batch sizes", "multilayer perceptrons"),
    "figI11": trends("mlp-grid", "learning rates", "multilayer perceptrons"),
    "figJ12": misclassified("test_loss", "root_sharpness", "log_volume", "mls", "local_dimension"),
}
