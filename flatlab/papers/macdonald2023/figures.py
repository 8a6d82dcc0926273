"""The paper macdonald2023 and its figures."""

from collections.abc import Mapping, Sequence

from flatlab.plan import Curves, Own, Paper, Table

PAPER = Paper(
    title="On progressive sharpening, flat minima and generalisation",
    citation="MacDonald, Valmadre and Lucey, 2023",
    cited="MacDonald et al. (2023)",
    targets=(*(f"fig{number}" for number in range(1, 33)), "table1", "table2"),
    needs={f"fig{number}": "CIFAR-100" for number in (13, 15, 17, 19, *range(24, 28))},
)

INPUT_SCALES = {
    "0.5": ("#56b4e9", "o", "-"),
    "1": ("#0173b2", "s", "--"),
    "1.5": ("#08306b", "D", ":"),
}
"""How the lines look: the larger the inputs, the darker."""

NORMS = {
    "jacobian_norm": ("Jacobian norm", r"max over the points of $|f'(x)|$"),
    "hessian_lambda_max": ("sharpness", r"$\lambda_{\max}$ of the Hessian of the loss"),
    "first_layer_norm": ("first layer weight norm", r"$\|W_1\|_2$"),
}
GAUSSIAN = {
    "framework": ((326.80, 182.51), (13517.61, 3871.97), (9.09, 0.34)),
    "low-frequency": ((84.07, 49.30), (18353.54, 5751.98), (0.56, 0.02)),
}
RELU = {
    "high-frequency": ((121.59, 80.79), (14211.05, 4767.26), (9.61, 0.28)),
    "framework": ((42.96, 7.82), (9922.45, 3330.37), (9.56, 0.16)),
}
"""By initialization, of high frequency and of low: mean and standard deviation of each of `NORMS`
over 10 trials, as in the paper's tables 1 and 2."""


def input_scales(activation: str, name: str) -> Curves:
    """Sharpness and the Jacobian norm through training, for inputs of three scales."""
    return Curves(
        "input-scale-grid",
        quantities=("hessian_lambda_max", "softmax_jacobian_norm"),
        where={"activation": activation},
        columns=2,
        marks=False,
        looks={
            f"activation {activation}, input scale {scale}": look
            for activation in ("relu", "tanh")
            for scale, look in INPUT_SCALES.items()
        },
        title=f"sharpness and Jacobian norm at three input scales, {name}",
        caption=(
            "Full-batch gradient descent on inputs of three scales (the paper's caption says label "
            "smoothing). Thin lines: networks; bold: their median."
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


def norms(grid: str, name: str, printed: Mapping[str, Sequence[tuple[float, float]]]) -> Table:
    """Norms of the networks that were fitted to eight points, by the initial frequency."""
    return Table(
        grid,
        rows=NORMS,
        by="initialization",
        columns=dict(zip(printed, ("high frequency", "low frequency"), strict=True)),
        printed={
            row: {column: values[place] for column, values in printed.items()}
            for place, row in enumerate(NORMS)
        },
        parts={"first_layer_norm": {"of": "weight_norm", "layer": "fc1"}},
        title=f"norms of {name} networks fitted to eight points",
        caption=(
            "Mean ± standard deviation over networks, with Student's 95 % interval of the mean in "
            "brackets; in italics, the paper's values over 10 trials. Its points, widths and scale "
            "of the loss are not known: compare which number is larger, not how large they are."
        ),
    )


FIGURES = {
    "fig30": input_scales("relu", "ReLU"),
    "fig31": input_scales("tanh", "tanh"),
    "fig32": Own(
        ("regression-gaussian-grid", "regression-relu-grid"),
        title="eight points, fitted roughly and smoothly",
        caption=(
            "One network each, of the first seed that did not diverge, at the end of training from "
            "a function of high or low frequency. Above each panel: the Jacobian norm."
        ),
        details="The Jacobian norm is the largest slope over the eight points.",
        size_inches=(7.1, 4.4),
    ),
    "table1": norms("regression-gaussian-grid", "Gaussian", GAUSSIAN),
    "table2": norms("regression-relu-grid", "ReLU", RELU),
}
