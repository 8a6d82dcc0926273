"""The paper macdonald2023 and its figures."""

from itertools import product
from typing import Annotated

from msgspec import Meta

from flatlab.lab.figures import captions
from flatlab.lab.plan import Curves, CustomFigure, Paper, Sweep
from flatlab.lab.plan.declarations import Along


class PartOfTraining(Curves, frozen=True, kw_only=True):
    """Quantities through a part of training.

    until_unsmoothed_stop: whether each run is shown as long as the one with unsmoothed labels, and
        otherwise the same, was trained.
    share: of the iterations, the first ones that are shown.
    """

    SELECTS = False

    module: str = "part_of_training"
    until_unsmoothed_stop: bool = False
    share: Annotated[float, Meta(gt=0, le=1)] = 1.0


PAPER = Paper(
    title="On progressive sharpening, flat minima and generalisation",
    citation="MacDonald, Valmadre and Lucey, 2023",
    cited="MacDonald et al. (2023)",
    publication=True,
    targets=(*(f"fig{number}" for number in range(1, 33)), "table1", "table2"),
)

NETWORKS = {"vgg": "VGG", "resnet": "ResNet"}
SMOOTHINGS = {
    "0": ("#0d0887", "o", "-"),
    "0.5": ("#cc4778", "s", "--"),
    "0.75": ("#e07b1a", "D", ":"),
}
"""How the lines look, in steps of one sequential map."""

LESS_ENTROPY = "The entropy of the labels is subtracted from the loss, that of the training set."
SOFTMAXED = (
    "The Jacobian norm is the largest spectral norm of the softmaxed network's Jacobian among "
    "fixed training samples, sharpness the largest eigenvalue of the Hessian of their loss."
)
AT_THE_END = (
    "Means over networks at the end of training, with 95 % intervals; pale: one point per network. "
    "All in a grey band are of the value below it."
)
MEASURED = (
    "The gap of the losses is |training loss - test loss|. Sharpness is the largest eigenvalue of "
    "the Hessian. The Jacobian norm is the largest spectral norm among fixed training samples, "
    "that of the logits."
)
GAP = {"absolute_loss_gap": "gap of the losses", "accuracy_gap": "gap of the errors"}
ENDS = ("hessian_lambda_max", "jacobian_norm", "absolute_loss_gap")
RATE: Along = {"lr": "learning rate"}
BATCH_SIZE: Along = {"batch_size": "batch size"}
STRENGTHS: Along = {
    "label_smoothing": r"label smoothing $\alpha$",
    "mixup_alpha": r"mixup $\beta$",
    "augmentation_probability": r"augmentation $p$",
    "sam_radius": r"SAM $\rho$",
}

INPUT_SCALES = {
    "0.5": ("#3d9bd4", "o", "-"),
    "1": ("#0173b2", "s", "--"),
    "1.5": ("#08306b", "D", ":"),
}
"""How the lines look: the larger the inputs, the darker."""


def input_scales(activation: str, name: str) -> Curves:
    """Sharpness and the Jacobian norm through training, for inputs of three scales."""
    return Curves(
        "input-scale-grid",
        quantities=("hessian_lambda_max", "softmax_jacobian_norm"),
        where={"activation": activation},
        across=2,
        marks=False,
        looks={
            f"activation {activation}, input scale {scale}": look
            for activation in ("relu", "tanh")
            for scale, look in INPUT_SCALES.items()
        },
        title=f"sharpness and Jacobian norm at three input scales, {name}",
        caption=(
            captions.OVER_SEEDS,
            "Full-batch gradient descent on inputs of three scales (the paper's caption says label "
            "smoothing).",
        ),
        details=(
            "The training samples are the first of the data set, or the first in a fixed random "
            "order if the data set is sorted by class. Sharpness is the largest eigenvalue of the "
            "Hessian of the training loss; the Jacobian norm is the largest spectral norm, among "
            "the samples, of the softmaxed network's Jacobian with respect to the scaled input. "
            "Both are measured on fixed training samples."
        ),
        size_inches=(7.1, 3.2),
    )


def norms(grid: str, name: str) -> CustomFigure:
    """Norms of the networks that were fitted to eight points, by the initial frequency."""
    return CustomFigure(
        grid,
        module="norms",
        title=f"norms of {name} networks fitted to eight points",
        caption=(
            "Mean ± standard deviation over networks, with Student's 95 % interval of the mean in "
            "brackets; in italics, the paper's values over 10 trials. Its points, widths and scale "
            "of the loss are not known: compare which number is larger, not how large they are."
        ),
        size_inches=(7.1, 3.0),
    )


def smoothings(architecture: str, lr: float) -> PartOfTraining:
    """Loss, sharpness and Jacobian norm in full-batch training, for labels smoothed or not."""
    return PartOfTraining(
        "full-batch-grid",
        quantities=("train_excess_loss", "hessian_lambda_max", "softmax_jacobian_norm"),
        where={"architecture": architecture, "lr": lr},
        until_unsmoothed_stop=True,
        logarithmic=("softmax_jacobian_norm",),
        marks=False,
        looks={f"label smoothing {value}": look for value, look in SMOOTHINGS.items()},
        named=("label_smoothing",),
        title=f"smoothed labels, {NETWORKS[architecture]}, learning rate {lr:g}",
        caption=(
            captions.OVER_SEEDS,
            "Full-batch gradient descent. A network is shown as long as that of the same seed "
            "with unsmoothed labels was trained: until its accuracy was 99 %, or to the end.",
        ),
        details=(LESS_ENTROPY, SOFTMAXED),
        size_inches=(7.1, 3.4),
    )


def sgd(share: float, when: str, *marks: str) -> PartOfTraining:
    """Sharpness, Jacobian norm and output norm in SGD, for labels smoothed or not.

    marks: what the caption says of the marks, if there are any.
    """
    return PartOfTraining(
        "smoothing-grid",
        quantities=("hessian_lambda_max", "softmax_jacobian_norm", "output_norm"),
        labels={"output_norm": "norm of the logits"},
        share=share,
        marks=bool(marks),
        looks={f"label smoothing {value}": look for value, look in SMOOTHINGS.items()},
        title=f"smoothed labels, VGG, SGD, {when}",
        caption=(captions.OVER_SEEDS, *marks),
        details=(SOFTMAXED, "The norm of the logits is that of all of them."),
        size_inches=(7.1, 3.2),
    )


def at_the_end(grid: str, architecture: str, along: Along, line: str, *more: str) -> Sweep:
    """Sharpness, Jacobian norm and gap along the learning rate or the batch size."""
    [title] = along.values()
    return Sweep(
        grid,
        quantities=(*ENDS, *more),
        labels=GAP,
        along=along,
        line=line,
        where={"architecture": architecture},
        logarithmic=("hessian_lambda_max",),
        title=f"{title}, {NETWORKS[architecture]}",
        caption=AT_THE_END,
        details=MEASURED,
    )


def regularizers(
    grid: str, architecture: str, normalization: str, quantities: tuple[str, ...], height: float
) -> Sweep:
    """Quantities along the strength of each of four regularizers."""
    norm = {"none": "without", "batch": "with"}[normalization]
    return Sweep(
        grid,
        quantities=quantities,
        labels=GAP,
        along=STRENGTHS,
        line="lr",
        where={"architecture": architecture, "normalization": normalization},
        logarithmic=tuple(name for name in quantities if name.endswith("_lambda_max")),
        title=f"regularizers, {NETWORKS[architecture]} {norm} batch norm",
        caption=AT_THE_END,
        details=MEASURED,
        size_inches=(7.1, height),
    )


IN_THREE_ROWS = ENDS[::-1]
IN_SIX_ROWS = (
    *("absolute_loss_gap", "hessian_lambda_max", "jacobian_norm"),
    *("gauss_newton_lambda_max", "train_loss", "test_accuracy"),
)
GRIDS = ("rates-grid", "rates-many-classes-grid")
FULL_BATCH = {
    f"fig{number}": smoothings(*network)
    for number, network in enumerate(product(NETWORKS, (0.08, 0.04, 0.02)), 6)
}
SWEPT = {
    f"fig{12 + number}": at_the_end(grid, architecture, *axes)
    for number, (axes, architecture, grid) in enumerate(
        product(((RATE, "batch_size"), (BATCH_SIZE, "lr")), ("resnet", "vgg"), GRIDS)
    )
}
EXTENDED = {
    f"fig{first + number}": regularizers(grid, architecture, norm, IN_SIX_ROWS, 9.0)
    for first, grid in ((20, "regularizers-grid"), (24, "regularizers-many-classes-grid"))
    for number, (architecture, norm) in enumerate(product(NETWORKS, ("none", "batch")))
}

FIGURES = {
    "fig1": smoothings("vgg", 0.08),
    "fig2": Sweep(
        "weight-decay-grid",
        quantities=("jacobian_norm", "hessian_lambda_max", "absolute_loss_gap"),
        labels=GAP,
        along={"weight_decay": "weight decay"},
        line="lr",
        title="weight decay, ResNet",
        caption=AT_THE_END,
        details=MEASURED,
    ),
    "fig3": at_the_end(GRIDS[0], "resnet", RATE, "batch_size", "accuracy_gap"),
    "fig4": at_the_end(GRIDS[0], "resnet", BATCH_SIZE, "lr"),
    "fig5": regularizers("regularizers-grid", "resnet", "batch", IN_THREE_ROWS, 5.6),
    **FULL_BATCH,
    **SWEPT,
    **EXTENDED,
    "fig28": sgd(1 / 90, "first epoch"),
    "fig29": sgd(1.0, "90 epochs", captions.MARKS),
    "fig30": input_scales("relu", "ReLU"),
    "fig31": input_scales("tanh", "tanh"),
    "fig32": CustomFigure(
        ("regression-gaussian-grid", "regression-relu-grid"),
        title="eight points, fitted roughly and smoothly",
        caption=(
            "Eight points and the function that one network fitted to them, from one of high or "
            "low frequency. It is the first of those counted here that did not diverge. Above "
            "each panel: the Jacobian norm."
        ),
        details="The Jacobian norm is the largest slope over the eight points.",
        size_inches=(7.1, 4.4),
    ),
    "table1": norms("regression-gaussian-grid", "Gaussian"),
    "table2": norms("regression-relu-grid", "ReLU"),
}
