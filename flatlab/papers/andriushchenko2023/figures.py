"""The paper andriushchenko2023 and its figures."""

from typing import Any

from flatlab.papers.andriushchenko2023 import _released_figures
from flatlab.papers.andriushchenko2023._printed import TABLE3, TABLE4
from flatlab.plan import Own, Panels, Paper, Ranks
from flatlab.plotting import captions

PAPER = Paper(
    title="A Modern Look at the Relationship between Sharpness and Generalization",
    citation="Andriushchenko, Croce, Müller, Hein and Flammarion, ICML 2023",
    cited="Andriushchenko et al. (2023)",
    targets=(*(f"fig{n}" for n in range(1, 16)), "table1", "table2", "table3", "table4"),
)

RECIPES: dict[str, Any] = {
    "parts": {"corrupted_error": {"of": "test_set_error", "test_set": "corrupted"}},
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
SHOWN: dict[str, Any] = {
    "rows": (("worst-normalized-linf", 0), ("worst-adaptive-linf", 0)),
    "size": "sam_radius",
    **RECIPES,
}
ERRORS = {"test_error": "test error (%)", "corrupted_error": "corrupted images (%)"}
FITTED = (
    "Networks with a training error of at most 1 %; the legend counts them, of ResNets and of "
    "SimpleViTs."
)
FILTERED = "With augmentation it takes longer training or wider networks to fit the training set."


def ranks(experiment: str, networks: str, printed: Any) -> Ranks:
    """Every definition at every radius, beside a table of the paper."""
    return Ranks(
        experiment,
        columns={"test_error": "test images", "corrupted_error": "corrupted test images"},
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


FIGURES = {
    "fig1": Own(
        "linear-grid",
        title="adaptive sharpness and the scale of a linear classifier",
        caption=(
            "(a-c) Worst-case sharpness of the trained weights times a factor, which is 1 at the "
            "vertical mark, in three neighbourhoods; with normalized logits it does not depend on "
            "the factor. (d) Along gradient descent, in the neighbourhood of (a)."
        ),
        details=(
            "Sharpness is the worst growth of the logistic loss of a single sample as the weights "
            "w change by δ, in closed form, averaged over the training samples; (a) is the "
            "neighbourhood of the authors' notebook, (b) and (c) are elementwise adaptive; logits "
            "are normalized as in Eq. 5. Lines are means over networks from different starts; "
            "bands from the smallest to the largest value are thinner than the lines."
        ),
        size_inches=(7.1, 4.8),
    ),
    "fig5": Panels(
        ("recipes-grid", "recipes-vit-grid"),
        columns=ERRORS,
        **SHOWN,
        title="sharpness and errors of networks trained by twelve recipes",
        caption=(FITTED, captions.TAU),
        details=(
            captions.BETWEEN_NETWORKS,
            FILTERED,
            "Corrupted images: those of the test set, at severity 5.",
        ),
    ),
    "fig6": Panels(
        ("recipes-grid", "recipes-vit-grid"),
        columns={"lr": "learning rate"},
        logarithmic=("lr",),
        **SHOWN,
        title="sharpness and the learning rate",
        caption=(FITTED, "Each drew its largest learning rate at random.", captions.TAU),
        details=(captions.BETWEEN_NETWORKS, FILTERED),
    ),
    "fig7": Own(
        "dln-grid",
        title="sharpness and generalization of diagonal linear networks",
        caption=(
            "A point is a network that fits a sparse regression to a training loss of 1e-5, "
            "coloured by its initialization; τ is Kendall's, with its 95 % interval. In (c) "
            "the paper has a τ of about 0.8; (f) is its printed rescaling. The line in (a) "
            "marks equality."
        ),
        details=(
            "Networks f(x) = ⟨x, u ⊙ v⟩; learning rate and scale of the initialization are drawn "
            "at random. H is the Hessian of |X(u ⊙ v) − y|² / 2; rescaled it has the entries "
            "H_ij c_i c_j, where c is √(|u|/|v|) on u and its inverse on v, which the paper "
            "prints interchanged. Intervals: jackknife over networks, on "
            "Fisher's z."
        ),
        size_inches=(7.1, 5.2),
    ),
    "table3": ranks("recipes-grid", "ResNets", TABLE3),
    "table4": ranks("recipes-vit-grid", "SimpleViTs", TABLE4),
    **_released_figures.FIGURES,
}
