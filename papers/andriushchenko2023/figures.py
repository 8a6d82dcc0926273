"""The paper andriushchenko2023 and its figures."""

from typing import Any

from flatlab.lab.figures import captions
from flatlab.lab.plan import Lines, Panel, Paper, Points, RankTable, SharpnessGrid
from flatlab.papers.andriushchenko2023 import _released_figures
from flatlab.papers.andriushchenko2023._names import TABLE3, TABLE4

PAPER = Paper(
    title="A Modern Look at the Relationship between Sharpness and Generalization",
    citation="Andriushchenko, Croce, Müller, Hein and Flammarion, ICML 2023",
    cited="Andriushchenko et al. (2023)",
    publication=True,
    targets=(*(f"fig{n}" for n in range(1, 16)), "table1", "table2", "table3", "table4"),
)

RECIPES: dict[str, Any] = {
    "aliases": {"corrupted_error": "test_set_error[corrupted]"},
    "at_most": {"train_error": 1.0},
    "groups": ("augmentation", "mixup_alpha"),
    "values": {
        "augmentation": {
            "none": "images as they are",
            "crop-flip": "crops and flips",
            "rand-augment+crop-flip": "RandAugment",
        },
        "mixup_alpha": {"0": "no mixup", "0.5": "mixup"},
        "sam_radius": {"0": "small: no SAM", "0.1": "large: SAM of radius 0.1"},
    },
}
ERRORS = {"test_error": "test error (%)", "corrupted_error": "corrupted images (%)"}
SHOWN: dict[str, Any] = {
    "labels": ERRORS,
    "rows": (("worst-normalized-linf", 0), ("worst-adaptive-linf", 0)),
    "size": "sam_radius",
    **RECIPES,
}
FITTED = "Networks with a training error of at most 1 %; the legend counts ResNets and SimpleViTs."
FILTERED = "With augmentation it takes longer training or wider networks to fit the training set."


WORST = "worst-case sharpness (loss)"
NEIGHBOURHOODS = {
    "ball": r"$\|\delta\|_2 \leq \rho \|w\|_2$",
    "adaptive-l2": r"$\|\delta / |w|\|_2 \leq \rho$",
    "adaptive-linf": r"$\|\delta / |w|\|_\infty \leq \rho$",
}
TEST_LOSS = r"test loss $\|u \odot v - \beta^*\|^2/d$"
RESCALED, LARGEST = r"Tr($H$ rescaled)", r"$\lambda_{\max}$($H$ rescaled)"


def ranks(experiment: str, networks: str, printed: Any) -> RankTable:
    """Every definition at every radius, beside a table of the paper."""
    return RankTable(
        experiment,
        columns=("test_error", "corrupted_error"),
        labels={"test_error": "test images", "corrupted_error": "corrupted test images"},
        printed=printed,
        **RECIPES,
        title=f"sharpness and errors of {networks}, all definitions",
        caption=(
            f"Kendall's τ of sharpness and error over {networks} with a training error of at "
            "most 1 %, its 95 % interval and the paper's value; bold from 0.5 on. Positive: "
            "flatter networks err less.",
        ),
        details=(captions.BETWEEN_NETWORKS, FILTERED),
    )


LINEAR = Lines(
    "linear-grid",
    panel=("panel",),
    panels={
        **{
            name: Panel(
                title=formula,
                x="factor on the trained weights",
                y=WORST,
                x_scale="powers of two",
                at=1.0,
            )
            for name, formula in NEIGHBOURHOODS.items()
        },
        "training": Panel(
            title=f"{NEIGHBOURHOODS['ball']}, through training",
            x="step of gradient descent",
            y="worst-case sharpness, loss",
            y_scale="logarithmic",
        ),
    },
    across=2,
    line="line",
    lines={
        "0.1": (r"$\rho$ = 0.1", "#7fb9da", "o", "-"),
        "0.25": (r"$\rho$ = 0.25", "#2b7bba", "s", "-"),
        "0.5": (r"$\rho$ = 0.5", "#08306b", "D", "-"),
        "normalized": (r"every $\rho$, logits normalized", "#d55e00", "", "--"),
        "loss": ("cross-entropy", "#222222", "^", ":"),
    },
    x="x",
    y="mean",
    ends=("least", "largest"),
    title="adaptive sharpness and the scale of a linear classifier",
    caption=(
        "(a-c) Worst-case sharpness of the trained weights times a factor, in three "
        "neighbourhoods. The vertical mark is a factor of 1. With normalized logits sharpness "
        "does not depend on the factor. (d) Along gradient descent, in the neighbourhood of (a)."
    ),
    details=(
        "Sharpness is the worst growth of the logistic loss of a single sample as the weights "
        "w change by δ, in closed form, averaged over the training samples; (a) is the "
        "neighbourhood of the authors' notebook, (b) and (c) are elementwise adaptive; logits "
        "are normalized as in Eq. 5. Lines are means over networks from different starts; "
        "bands from the smallest to the largest value are thinner than the lines."
    ),
    size_inches=(7.1, 4.8),
)

DIAGONAL = Points(
    "dln-grid",
    panel="panel",
    panels={
        "norm": (r"Tr($H$ rescaled)/2", r"$\|u \odot v\|_1$"),
        "trace": (r"Tr $H$", TEST_LOSS),
        "rescaled trace": (RESCALED, TEST_LOSS),
        "both": (RESCALED, LARGEST),
        "rescaled eigenvalue": (LARGEST, TEST_LOSS),
        "printed": (r"Tr($H$ rescaled as printed)", TEST_LOSS),
    },
    y="y",
    correlation="tau",
    shade="initial_trace",
    labels={"initial_trace": "Tr $H$ before training"},
    counted={"not_fitted": "more did not reach the training loss"},
    equal=("norm",),
    logarithmic=("x", "y"),
    across=3,
    title="sharpness and generalization of diagonal linear networks",
    caption=(
        "Each point is one network that fits a sparse regression, coloured by its "
        "initialization. τ is Kendall's, with its 95 % interval. In (c) the paper has a τ of "
        "about 0.8; (f) is its printed rescaling. The line in (a) marks equality."
    ),
    details=(
        "Networks f(x) = ⟨x, u ⊙ v⟩; learning rate and scale of the initialization are drawn "
        "at random. H is the Hessian of |X(u ⊙ v) − y|² / 2; rescaled it has the entries "
        "H_ij c_i c_j, where c is √(|u|/|v|) on u and its inverse on v, which the paper "
        "prints interchanged. Intervals: jackknife over networks, on "
        "Fisher's z."
    ),
    size_inches=(7.1, 5.2),
)

FIGURES = {
    "fig1": LINEAR,
    "fig5": SharpnessGrid(
        ("recipes-grid", "recipes-vit-grid"),
        columns=tuple(ERRORS),
        **SHOWN,
        title="sharpness and errors of networks trained by twelve recipes",
        caption=(FITTED, captions.TAU),
        details=(
            captions.BETWEEN_NETWORKS,
            FILTERED,
            "Corrupted images: those of the test set, at severity 5.",
        ),
    ),
    "fig6": SharpnessGrid(
        ("recipes-grid", "recipes-vit-grid"),
        columns=("lr",),
        logarithmic=("lr",),
        **SHOWN,
        title="sharpness and the learning rate",
        caption=(FITTED, "Each drew its largest learning rate at random.", captions.TAU),
        details=(captions.BETWEEN_NETWORKS, FILTERED),
    ),
    "fig7": DIAGONAL,
    "table3": ranks("recipes-grid", "ResNets", TABLE3),
    "table4": ranks("recipes-vit-grid", "SimpleViTs", TABLE4),
    **_released_figures.FIGURES,
}
