"""Figures of our own, on the networks trained for the papers."""

from itertools import chain
from typing import Any

from flatlab.lab.figures import captions
from flatlab.lab.plan import Curves, CustomFigure, Intervals, Lines, Pairs, Panel, Paper
from flatlab.papers.beyond.measures import LABELS, MEASURES

PAPER = Paper(
    title="Figures of our own, on the networks trained for the papers",
    citation="this project",
    cited="flatlab",
)

NAMES = {
    "bound_d kernel": "its bound D, matrix norm",
    "bound_d operator": "its bound D, operator norm",
    "bound_d frobenius": "its bound D, authors' norm",
    "log_volume_of_three": "log volume, three largest",
}
BOUNDS = {
    f"bound_d {norm}": f"bound_by_norm[{norm}, d]" for norm in ("kernel", "operator", "frobenius")
}
COMPRESSION = ("log_volume", "log_volume_of_three", "mls", "nmls")
CONVENTIONS = (
    *((sharpness, name) for sharpness in ("root_sharpness", "sharpness") for name in COMPRESSION),
    *(("mls", bound) for bound in BOUNDS),
)
"""What is correlated: sharpness and the bound by other conventions."""

CONVENTIONS_CAPTION = "Pearson's correlations at the end of training, with 95 % intervals."
CONVENTIONS_DETAILS = (
    "Sharpness as S and as its square root; the log volume of all singular values and, as in the "
    "authors' code, of the three largest (networks with two outputs have two); the MLS bound D "
    "with each norm of a kernel: the largest singular value of its matrix, that of the convolution "
    "as an operator, and the authors' root of the number of positions times the Frobenius norm."
)

THROUGH_TRAINING = {
    "root_sharpness mls": r"$\sqrt{S}$ and MLS",
    "root_sharpness log_volume": r"$\sqrt{S}$ and log volume",
    "mls bound_d": "MLS and its bound D",
    "nmls nmls_bound": "NMLS and its bound",
}
"""Pairs of quantities, and what their panels are called."""

JOINT = ("joint-mlp-grid", "joint-lenet-grid")
COMPARED: dict[str, Any] = {
    "columns": (*chain(*MEASURES.values()), "test_error", "error_gap"),
    "labels": LABELS,
}
FIT = "Networks with at most 1 % training error."

UNITS = "units of the last hidden layer"

CORRELATIONS = Lines(
    ("mlp-grid", "vgg-grid"),
    panel=("x", "y"),
    panels={
        pair: Panel(title=title, y=r"Pearson's $\rho$" * (not place), x_scale="iterations")
        for place, (pair, title) in enumerate(THROUGH_TRAINING.items())
    },
    row="experiment",
    line="kind",
    lines={
        "pooled": ("all networks", "#222222", "o", "-"),
        "within": ("same setting", "#c05621", "D", "-"),
        "adjusted": ("adjusted for the training loss", "#2b7bba", "^", "-"),
    },
    x="iteration",
    y="rho",
    ends=("low", "high"),
    level=0.0,
    limits=(-1.05, 1.05),
    through_training=True,
    title="correlations between networks through their training",
    caption=(
        "Pearson's correlation at each checkpoint, over the networks measured there, with 95 % "
        "intervals. All other figures show correlations at the end of training."
    ),
    details=captions.INTERVALS,
    size_inches=(7.1, 4.2),
)

BOUNDS_BY_WIDTH = Lines(
    "bottleneck-grid",
    panel=("panel",),
    panels={
        "penultimate": Panel(
            title="penultimate features",
            x=UNITS,
            y="$\\|\\partial g/\\partial x\\|_F$ (feature/input)\nmedian, quartiles",
            x_scale="values",
            y_scale="logarithmic",
        ),
        "head": Panel(
            title="of this, what the head sees", x=UNITS, x_scale="values", y_scale="logarithmic"
        ),
        "share": Panel(title="shares (no unit)", x=UNITS, x_scale="values", y_scale="shares"),
    },
    row="loss",
    line="line",
    lines={
        "features": ("features, root mean square", "#222222", "o", "-"),
        "bound": ("bound, Eq. 16", "#0173b2", "D", "-"),
        "by-layer": (r"bound by $S(W_1)$", "#5fa2cc", "^", "-"),
        "by-sharpness": ("bound by $S$", "#de8f05", "s", "-"),
        "seen": ("seen by the head", "#029e73", "o", "-"),
        "head-bound": ("its bound", "#cc78bc", "D", "-"),
        "start": ("seen, before training", "#949494", "v", "--"),
        "end": ("seen, after training", "#029e73", "o", "-"),
        "fits": ("networks with a loss below 0.01", "#222222", "s", ":"),
    },
    x="units",
    y="median",
    ends=("low", "high"),
    bars=True,
    title="bounds of penultimate features by the width of the bottleneck",
    caption=(
        "Medians and quartiles over networks at the end of training. With more units than outputs "
        "the bound of Eq. 16 is infinite; that of what the head sees is finite. With the "
        "squared error there are as many classes as units.",
        captions.SIDE_BY_SIDE,
    ),
    details=(
        "The Frobenius norm of the Jacobian of the penultimate features g, as the root of its mean "
        "square over training samples, and the mean bound of chen2026 Eq. 16, in its place with "
        "the sharpness of the first layer or of all. The head sees the projection of the features "
        "onto the row space of the last weights: mean norm, its bound, and the share of the mean "
        "square."
    ),
    size_inches=(7.1, 4.4),
)

LAYERS = {
    "": ("#222222", "o", "-"),
    "fc1": ("#5fa2cc", "o", "-"),
    "fc2": ("#0173b2", "s", "-"),
    "fc3": ("#de8f05", "^", "-"),
    "fc4": ("#a65628", "D", "-"),
}
"""From the inputs to the outputs: blue for the lower half, brown for the upper."""

INVARIANT = Pairs(
    ("mlp-grid", "lenet-grid", "vgg-grid"),
    pairs=(
        ("matrix_normalized_sharpness", "weighted_mls"),
        ("elementwise_adaptive_trace", "input_invariant_mls"),
        ("elementwise_adaptive_trace", "normalized_mls"),
    ),
    labels={
        "weighted_mls": "weighted MLS",
        "input_invariant_mls": "input-invariant MLS",
        "elementwise_adaptive_trace": "adaptive sharpness",
    },
    title="sharpness that rescaling does not change, and the sensitivity that it bounds",
    caption=(captions.AT_THE_END, "Pearson's correlation with its 95 % interval."),
    details=(
        "From above: matrix-normalized sharpness and weighted MLS (chen2026 Eq. F.2), "
        "elementwise-adaptive sharpness and input-invariant MLS (Eq. F.8), and the pair of "
        "chen2026 Fig. 5.",
        captions.INTERVALS,
    ),
    size_inches=(7.1, 7.2),
)

LOOSENESS = Lines(
    ("mlp-grid", "vgg-grid"),
    panel=("of",),
    panels={
        "sensitivity": Panel(
            title="sensitivity",
            y="ln(bound / value) (nats)\nmedian, quartiles",
            x_scale="iterations",
        ),
        "volume": Panel(title="volume", x_scale="iterations"),
    },
    row="experiment",
    line="measure",
    lines={
        "mls": ("MLS", "#0173b2", "o", "-"),
        "nmls": ("NMLS", "#5fa2cc", "s", "--"),
        "lvr": ("LVR", "#de8f05", "o", "-"),
        "nvr": ("NVR", "#a65628", "s", "--"),
    },
    x="iteration",
    y="median",
    ends=("low", "high"),
    through_training=True,
    title="how far bounds of compression lie above what they bound",
    caption=(
        "The logarithm of a bound over its value, median over networks with quartiles. NMLS and "
        "NVR count all layers, MLS and LVR the first.",
    ),
    details=(
        "MLS and its bound D, NMLS and its bound; LVR as the logarithm of the mean volume of Def. "
        "3.3, and NVR, with theirs. Bounds are theorems for perceptrons and proxies where "
        "convolutions share weights."
    ),
    size_inches=(7.1, 4.4),
)

FIGURES = {
    "fig1": CustomFigure(
        "vgg-grid",
        through_training=True,
        title="the linear-stability inequality, layer by layer through training, VGG",
        caption=(
            "For how many samples the inequality of linear stability fails at the end, by layer "
            "and by the norm of its weights. In theory it holds unless weights are shared. The "
            "second page of the PDF has both of its sides through training.",
        ),
        details=(
            "The inequality is ‖J‖ |x| ≤ ‖W‖ |∂f/∂W|; the share of samples is over all networks. "
            "Second page: the mean of ‖J‖ over C = ‖W‖ √⟨1/|x|²⟩ √S(W) (Eq. 59 of chen2026), on "
            "fixed training samples.",
            captions.OVER_SEEDS,
            captions.MARKS,
            captions.BEGINS,
        ),
        size_inches=(7.1, 2.6),
    ),
    "fig2": Intervals(
        ("vgg-grid", "mlp-grid", "lenet-grid"),
        pairs=CONVENTIONS,
        aliases=BOUNDS,
        labels=NAMES,
        title="does the definition matter",
        caption=CONVENTIONS_CAPTION,
        details=(CONVENTIONS_DETAILS, captions.INTERVALS),
    ),
    "fig3": CORRELATIONS,
    "fig4": CustomFigure(
        JOINT,
        **COMPARED,
        title="which measures order the same networks alike",
        caption=(
            "Kendall's τ of measures, one of each block that orders networks alike. Below the "
            "diagonal: over all networks; above: same setting. White: the simultaneous 95 % "
            "interval includes 0.",
        ),
        details=(
            FIT,
            "The second page of the PDF has all measures. They are ordered by average linkage of "
            "1 − |τ| over all networks. Within settings, only the seed varies. Intervals: "
            "jackknife over seeds, Šidák over all cells of a panel. The CSV has larger radii.",
        ),
        size_inches=(7.1, 5.0),
    ),
    "fig5": CustomFigure(
        JOINT,
        **COMPARED,
        title="what measures say of the test error, by what varies",
        caption=(
            "How many measures have a decided Kendall's τ with the test error in both grids, by "
            "what varies between the networks.",
        ),
        details=(
            FIT,
            "The mean over the factors is the granulated coefficient of Jiang et al. (2020). "
            "Intervals: jackknife over seeds. The CSV also has the gap, the sign error of "
            "Dziugaite et al. (2020), and all of this when networks first have at most 1 % "
            "training error.",
        ),
        size_inches=(7.1, 2.8),
    ),
    "fig6": CustomFigure(
        JOINT,
        **COMPARED,
        title="what changes a measure, and not the function",
        caption=(
            "Median relative change of measures under rescaling that keeps the function, and from "
            "the first epoch with 1 % training error to the end. Bold: a paper says that it does "
            "not change; red: it does.",
        ),
        details=(
            "For log volume and logarithms of products, the change is that of the volume and of "
            "the product. One network of each setting is rescaled. Changes below 1e-8 are rounding."
        ),
        size_inches=(7.1, 8.6),
    ),
    "fig7": CustomFigure(
        "bottleneck-grid",
        through_training=True,
        title="compression and collapse of each layer through training",
        caption=(
            "A row for each measure, a column for each width of the last hidden layer.",
            captions.OVER_SEEDS,
            captions.MARKS,
            "Cross-entropy and 10 classes, unless a column says otherwise; learning rate 0.05. "
            "Five networks in a panel.",
        ),
        details=(
            "Of the Jacobian A of a representation z of the input x, means over training samples: "
            "of the largest singular value (MLS), of that times |x|/|z|, and of the participation "
            "ratio of the squared singular values (dimension). NC1: Tr(Σ_W Σ_B⁺)/K; networks of "
            "which a unit is dead have none where there are fewer units than classes.",
            captions.BEGINS,
        ),
        size_inches=(7.1, 7.6),
    ),
    "fig8": BOUNDS_BY_WIDTH,
    "fig9": CustomFigure(
        "bottleneck-grid",
        title="sharpness, local compression and collapse across networks",
        caption=(
            "Left: Kendall's τ with 95 % intervals. Right: share of the spread within a class that "
            "the linear map at the mean input of the class explains. Lines: medians over widths; "
            "bands: the quartiles of all widths; an arrow: below −0.6.",
        ),
        details=(
            "Networks with a training loss below 0.01. Compression: mean squared Frobenius norm of "
            "the Jacobian of a representation; normalized MLS: largest singular value times |x| "
            "over the norm of the representation; collapse: NC1. Layer l: the input of layer l. "
            "Representativeness: petzka2021 Eq. 3 at δ = 0.1. "
            "Intervals: jackknife over seeds.",
        ),
        size_inches=(7.1, 5.6),
    ),
    "fig10": CustomFigure(
        ("mlp-grid", "mlp-dense-grid"),
        through_training=True,
        title="sharpness and compression through training, by how time is read, perceptrons",
        caption=(
            "Correlation over the checkpoints of one network with the root of its sharpness, mean "
            "over seeds on Fisher's z with its 95 % interval. Each checkpoint counts for the "
            "iterations, or for their logarithm, that it stands for.",
        ),
        details=(
            "The same networks with sixty log-spaced checkpoints, of which six to eight lie after "
            "interpolation, and with one at every hundredth of the training. Checkpoints are no "
            "independent data: intervals are over networks.",
        ),
        size_inches=(7.1, 3.6),
    ),
    "fig11": CustomFigure(
        "mlp-drawn-grid",
        through_training=True,
        title="sharpness, sensitivity and generalization, settings drawn at random",
        caption=(
            "Perceptrons of ten batch sizes, each with a learning rate of its own, all drawn "
            "log-uniformly. Pearson's correlations with 95 % intervals, over those that "
            "interpolate.",
        ),
        details=(
            "Intervals: jackknife over batch sizes, whose networks are "
            "left out together, on Fisher's z. At equal epochs each network is taken where it has "
            "seen as many samples as those of the smallest batches at the end.",
        ),
        size_inches=(7.1, 3.2),
    ),
    "fig12": CustomFigure(
        "mlp-depth-grid",
        title="what the learning rates of lower and upper layers do, perceptrons",
        caption=(
            "Change of logarithms when the learning rate of the first two or of the last two "
            "weight matrices doubles. Means over seeds with 95 % intervals. (d) The correlation "
            "of MLS with the sharpness of the first layer, and what is left of it when that layer "
            "is drawn again.",
        ),
        details=(
            "Three by three rates; an effect is half the difference between the highest and the "
            "lowest rate, mean over the rates of the other half. With the same seed networks start "
            "alike and see the same data in the same order. MLS and the first layer's sharpness "
            "share the derivatives behind that layer: the null has the same ones.",
        ),
        size_inches=(7.1, 2.9),
    ),
    "fig13": Curves(
        "mlp-grid",
        quantities=("mls", "sharpness_per_layer"),
        where={"lr": 0.1, "batch_size": 20},
        line="layer",
        looks=LAYERS,
        logarithmic=("mls", "sharpness_per_layer"),
        title="compression and the sharpness of each layer through training, perceptrons",
        caption=(captions.OVER_SEEDS, captions.MARKS, captions.CENTRAL),
        size_inches=(7.1, 2.9),
    ),
    "fig14": INVARIANT,
    "fig15": LOOSENESS,
    "fig16": CustomFigure(
        ("logits-mlp-grid", "logits-lenet-grid"),
        title="sharpness and sensitivity with and without a scale of the logits",
        caption=(
            "Kendall's τ of the root of sharpness and MLS, with 95 % intervals. Pairs of networks "
            "differ in the rate or the batch size alone. Of outputs f, of f over its standard "
            "deviation, of probabilities, and of f given log sd f.",
        ),
        details=(
            "Networks trained with three losses. The normalized cross-entropy is that of f / sd f, "
            f"at a temperature of 1. {FIT}",
        ),
        size_inches=(7.1, 3.4),
    ),
    "fig17": CustomFigure(
        ("matched-mlp-grid", "matched-lenet-grid"),
        title="errors of equally flat, and of equally compressed networks",
        caption=(
            "(a, c) Networks trained with SAM, a penalty on the Jacobian, or neither. "
            "(b, d) How many fewer errors the flatter of two equally compressed networks makes, "
            "and the more compressed of two equally flat ones. Gap: how much smaller it is. Means "
            "over seeds, 95 % intervals.",
        ),
        details=(
            "A network of SAM is paired with the penalized one of its seed that has the same MLS, "
            f"or root of sharpness, by interpolation between two strengths. {FIT}",
        ),
        size_inches=(7.1, 2.9),
    ),
}
