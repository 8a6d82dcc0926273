"""The paper andriushchenko2023 and its figures."""

from typing import Any

from flatlab.lab.plan import Lines, Panel, Paper, Points
from flatlab.lab.plan.declarations import Declaration
from flatlab.papers.andriushchenko2023 import _names as names
from flatlab.papers.andriushchenko2023.templates import RankTable, SharpnessGrid

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
        "sam_radius": {"0": "no SAM", "0.05": "SAM of radius 0.05", "0.1": "SAM of radius 0.1"},
    },
}
ERRORS = {"test_error": "test error (%)", "corrupted_error": "corrupted images (%)"}
SHOWN: dict[str, Any] = {
    "labels": ERRORS,
    "rows": (("worst-normalized-linf", 0), ("worst-adaptive-linf", 0)),
    "size": "sam_radius",
    **RECIPES,
}
FITTED = (
    "Each point is one ResNet with a training error of at most 1 %. Right: Kendall's τ with its "
    "95 % interval, over all and by group. The second page has SimpleViTs."
)
BETWEEN_NETWORKS = "Kendall's tau-a; intervals: jackknife over networks, on Fisher's z."
FILTERED = "With augmentation it takes longer training or wider networks to fit the training set."


WORST = "worst-case sharpness (loss)\nmean, range of networks"
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
            "most 1 %, and its 95 % interval. In brackets: the paper's value. Bold: from 0.5 on; "
            "grey: the interval excludes 0. Positive: flatter networks err less.",
        ),
        details=(BETWEEN_NETWORKS, FILTERED),
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
            y=WORST,
            y_scale="logarithmic",
        ),
    },
    across=2,
    line="line",
    lines={
        "0.1": (r"$\rho$ = 0.1", "#5fa2cc", "o", "-"),
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
        name: (f"{x} (no unit)", f"{y} (no unit)")
        for name, (x, y) in {
            "norm": (r"Tr($H$ rescaled)/2", r"$\|u \odot v\|_1$"),
            "trace": (r"Tr $H$", TEST_LOSS),
            "rescaled trace": (RESCALED, TEST_LOSS),
            "both": (RESCALED, LARGEST),
            "rescaled eigenvalue": (LARGEST, TEST_LOSS),
            "printed": (r"Tr($H$ rescaled as printed)", TEST_LOSS),
        }.items()
    },
    y="y",
    correlation="tau",
    shade="initial_trace",
    labels={"initial_trace": "Tr $H$ before training"},
    counted={"not_fitted": "more did not reach the training loss"},
    equal=("norm",),
    logarithmic=("x", "y"),
    subset=("$z$ above (b)", "more", "more_low", "more_high"),
    across=3,
    title="sharpness and generalization of diagonal linear networks",
    caption=(
        "Each point is one network that fits a sparse regression, coloured by its "
        "initialization. τ is Kendall's, with its 95 % interval. In (c) the paper has a τ of "
        "about 0.8, and z is Fisher's; (f) is its printed rescaling."
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

# Networks that others released ------------------------------------------------------------------
DETAILS = (BETWEEN_NETWORKS,)
WORDS = {"error": "(%)", "error_gap": "gap"}
PRETRAINING: dict[str, Any] = {
    "groups": ("dropout", "weight_decay"),
    "size": "augmentation",
    "values": {
        "augmentation": {
            "0": "no augmentation",
            "1": "light augmentation",
            "3": "strong augmentation",
        }
    },
}
BOTH = ((names.NORMALIZED, 1), (names.PLAIN, 1))
IN_FOUR = {key: names.IMAGES[key] for key in names.FOUR}


def shown(sets: dict[str, str], words: dict[str, str]) -> dict[str, Any]:
    """Errors on test sets, or gaps, by shorter names, and as other data stand in for the sets.

    words: behind the name of a set, by quantity.
    """
    pairs = [(quantity, key) for quantity in words for key in sets]
    labels = {f"{name} {key}": f"{sets[key]} {words[name]}".strip() for name, key in pairs}
    return {
        "columns": tuple(labels),
        "labels": labels,
        "of_stand_ins": {name: f"in place of\n{label}" for name, label in labels.items()},
        "aliases": {f"{name} {key}": f"test_set_{name}[{key}]" for name, key in pairs},
        "at_most": names.MEASURED,
    }


def grid(
    experiment: str, sets: dict[str, str], title: str, *said: str, gaps: bool = False, **about: Any
) -> SharpnessGrid:
    """Errors on test sets against sharpness and, with gaps, these below them.

    said: more sentences of the caption.
    """
    caption = (
        "Errors on test sets against sharpness on training samples.",
        *said,
        "τ is Kendall's, with its 95 % interval.",
    )
    columns = shown(sets, WORDS if gaps else {"error": WORDS["error"]})
    about = {"rows": BOTH, **columns, **about, "title": title, "caption": caption}
    return SharpnessGrid(experiment, details=DETAILS, **about)


def by_radius(experiment: str, definition: str, title: str) -> SharpnessGrid:
    """One definition at three radii, on six test sets."""
    rows = tuple((definition, radius) for radius in range(3))
    size = (7.1, 9.8)
    return grid(
        experiment, names.IMAGES, title, rows=rows, across=3, size_inches=size, **PRETRAINING
    )


def with_gaps(experiment: str, **looks: Any) -> SharpnessGrid:
    """Errors, and below them the gaps."""
    said = "The gap is the test error less the training error, as fractions."
    title = "sharpness, errors and generalization gaps"
    size = (7.1, 8.0)
    return grid(experiment, IN_FOUR, title, said, gaps=True, across=4, size_inches=size, **looks)


def released_ranks(
    experiments: tuple[str, ...], sets: dict[str, str], printed: Any, of: str, height: float
) -> RankTable:
    """Every definition at every radius, beside a table of the paper."""
    return RankTable(
        experiments,
        **shown(sets, {"error": ""}),
        printed=printed,
        size_inches=(7.1, height),
        title=f"sharpness and errors of {of}, all definitions",
        caption=("Kendall's τ of sharpness and error, in brackets the paper's; grey: decided.",),
        details=(
            "Decided: the 95 % interval excludes 0. Bold from 0.5 on. Positive: flatter networks "
            "err less.",
            *DETAILS,
        ),
    )


WORST_CASE, AVERAGE_CASE = "worst-case sharpness and errors", "average-case sharpness and errors"
RELEASED: dict[str, Declaration] = {
    "fig2": grid(names.VIT, IN_FOUR, "sharpness and errors of vision transformers", **PRETRAINING),
    "fig3": grid(
        names.CLIP,
        IN_FOUR,
        "sharpness and errors of one network fine-tuned many times",
        "The colour is the learning rate of the fine-tuning, grey that of the network before it.",
        shade="lr",
    ),
    "fig4": grid(
        names.BERT,
        names.SENTENCES,
        "sharpness and errors of networks that differ in their seeds",
        "The colour is the error on the clean test set.",
        rows=((names.NORMALIZED, 0), (names.PLAIN, 0)),
        shade="error test",
    ),
    "fig8": with_gaps(names.VIT, **PRETRAINING),
    "fig9": with_gaps(names.CLIP, shade="lr"),
    "fig10": by_radius(names.VIT, names.NORMALIZED, f"{WORST_CASE}, logits normalized"),
    "fig11": by_radius(names.VIT, names.PLAIN, WORST_CASE),
    "fig12": by_radius(names.VIT, names.AVERAGE_NORMALIZED, f"{AVERAGE_CASE}, logits normalized"),
    "fig13": by_radius(names.VIT, names.AVERAGE_PLAIN, AVERAGE_CASE),
    "fig14": by_radius(
        names.VIT21K, names.NORMALIZED, f"{WORST_CASE}, logits normalized, other pretraining"
    ),
    "fig15": by_radius(names.VIT21K, names.PLAIN, f"{WORST_CASE}, other pretraining"),
    "table1": released_ranks(
        (names.VIT, names.VIT21K, names.CLIP), names.IMAGES, names.TABLE1, "image classifiers", 8.2
    ),
    "table2": released_ranks(
        (names.BERT,), names.SENTENCES, names.TABLE2, "classifiers of sentences", 4.6
    ),
}

FIGURES = {
    "fig1": LINEAR,
    "fig5": SharpnessGrid(
        ("recipes-grid", "recipes-vit-grid"),
        columns=tuple(ERRORS),
        **SHOWN,
        title="sharpness and errors of networks trained by twelve recipes",
        caption=FITTED,
        details=(
            BETWEEN_NETWORKS,
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
        caption=FITTED,
        details=("The rate is drawn at random.", BETWEEN_NETWORKS, FILTERED),
    ),
    "fig7": DIAGONAL,
    "table3": ranks("recipes-grid", "ResNets", names.TABLE3),
    "table4": ranks("recipes-vit-grid", "SimpleViTs", names.TABLE4),
    **RELEASED,
}
