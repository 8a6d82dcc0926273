"""The paper petzka2021 and its figures."""

from typing import Any

from flatlab.lab.figures import captions
from flatlab.lab.plan import Lines, Panel, Paper, Points

PAPER = Paper(
    title="Relative Flatness and Generalization",
    citation="Petzka, Kamp, Adilova, Sminchisescu and Boley, NeurIPS 2021",
    cited="Petzka et al. (2021)",
    publication=True,
    targets=("fig3", "fig4", "fig5", "fig6", "fig7", "fig8"),
)

POINTS = f"{captions.AT_THE_END} {captions.KAPPA}"
GAP = "The gap is test minus training loss."
LAST_LAYER = (
    "Relative flatness, trace and squared norm are of the last layer's weights, its features "
    "divided by their standard deviation for relative flatness."
)
FEATURES = "Features are divided by their standard deviation."
BY_OPTIMIZER = (
    "Lines: least squares, of each optimizer and, dashed, of all networks. Pearson's correlations "
    "with 95 % intervals, over all networks and over those trained by SGD."
)

RESCALED = (
    "Every network computes the same as before. Its last layer was multiplied by a random integer "
    "between 5 and 25. The layer before it was divided by that number."
)
SEPARATION: dict[str, Any] = {"x": "class separation", "x_scale": "values"}
MEASURES = {
    "kappa": "relative flatness $\\kappa_{\\mathrm{Tr}}$\n(loss)",
    "trace": "trace of the Hessian\n(loss/parameter²)",
    "fisher_rao": "Fisher-Rao norm\n(loss)",
    "pac_bayes": "PAC-Bayes\n(no unit)",
    "norm": "squared norm\n(parameter²)",
}
LAYERS = {
    "kappa_before_last": r"$\kappa_{\mathrm{Tr}}$, layer before the last (loss)",
    "kappa": r"$\kappa_{\mathrm{Tr}}$, last layer (loss)",
}


def minima(
    measures: dict[str, str], title: str, height: float, said: str = POINTS, **about: Any
) -> Points:
    """Networks at different minima, by measures with their titles, and their generalization gap.

    said: the first sentences of the caption.
    """
    y = "test loss − training loss (no unit)"
    return Points(
        "minima-grid",
        module="minima",
        panel="measure",
        panels={name: (title, y) for name, title in measures.items()},
        y="gap",
        correlation="rho",
        groups=("optimizer", "batch_size"),
        lines=True,
        subset=("trained by SGD", "sgd", "sgd_low", "sgd_high"),
        title=title,
        caption=(said, BY_OPTIMIZER, "Features are standardized."),
        details=(GAP, FEATURES if measures is LAYERS else LAST_LAYER, captions.INTERVALS),
        size_inches=(7.1, height),
        **about,
    )


BY_SEPARATION = Lines(
    "locally-constant-labels",
    panel=("panel",),
    panels={
        "risk": Panel(
            title="κ and the risk on test samples",
            y=r"Pearson's $\rho$: mean $\pm$ s.d. over batches",
            **SEPARATION,
        ),
        "variants": Panel(title="κ and the generalization gap", **SEPARATION),
        "readings": Panel(title="the same, features as drawn", **SEPARATION),
    },
    line="line",
    lines={
        "exact": ("features as drawn", "#222222", "o", "-"),
        "inverted": ("features through the inverted network", "#0173b2", "s", "-"),
        "reversed": ("features as drawn, separations reversed", "#949494", "v", "--"),
        "code": ("the authors' code, separations reversed", "#d55e00", "D", "--"),
        "squared none squared": ("squared loss, as it is", "#222222", "o", "-"),
        "squared deviation squared": ("over standard deviation", "#029e73", "s", "-"),
        "squared variance squared": ("over variance (Thm. 4)", "#cc78bc", "D", "-"),
        "cross-entropy none cross-entropy": ("cross-entropy", "#de8f05", "^", "-"),
        "squared none zero-one": ("gap in zero-one loss", "#5fa2cc", "v", "-"),
    },
    x="drawn_at",
    y="mean",
    ends=("deviation",),
    bars=True,
    level=0.0,
    limits=(-1.05, 1.05),
    title="relative flatness and generalization, by class separation",
    caption=(
        "Pearson's correlation over the data sets of a batch: mean over batches, with their "
        "standard deviation. The larger the separation, the more locally constant the labels. "
        "The authors' code reads the list of separations backwards (dashed). "
        f"{captions.SIDE_BY_SIDE}"
    ),
    details=(
        "(a) and (b): squared loss, κ without normalization. Each point of a dashed line "
        "stands at the separation that its data have; the authors' code reports the mirrored one "
        "of its list."
    ),
    size_inches=(7.1, 4.0),
)

OVER_SAMPLES = r"mean $\pm$ s.d. over samples"
BOUND = Lines(
    "representativeness",
    panel=("variant",),
    panels={
        "paper": Panel(
            title="as the paper says", y=f"loss (no unit)\n{OVER_SAMPLES}", **SEPARATION
        ),
        "code": Panel(
            title="the authors' code",
            y=f"loss, or share of errors (no unit)\n{OVER_SAMPLES}",
            **SEPARATION,
        ),
    },
    line="quantity",
    lines={
        "bound": ("approximated bound", "#0173b2", "o", "-"),
        "representativeness": ("representativeness, a part of it", "#5fa2cc", "s", "-"),
        "gap": ("generalization gap", "#d55e00", "^", "-"),
    },
    x="separation",
    y="mean",
    ends=("deviation",),
    bars=True,
    level=0.0,
    title="the approximated bound and the gap",
    caption=(
        "Means over models with standard deviations over samples. (a) Four Gaussian clusters, "
        "squared loss. (b) The authors' code, whose bound and gap are not in the same units. "
        f"{captions.SIDE_BY_SIDE}"
    ),
    details=(
        "Bound: δ² κ_Tr / (2m) + representativeness, approximated from the "
        "training sample; each sample is the mean of its folds. (a) Models trained on two "
        "thirds of a sample. (b) Other data, models trained on 50 samples, and a zero-one "
        "error compared with a squared loss on other labels."
    ),
    size_inches=(7.1, 3.2),
)

FIGURES = {
    "fig3": BY_SEPARATION,
    "fig4": BOUND,
    "fig5": minima(MEASURES, "five measures and the gap", 3.3),
    "fig6": minima(MEASURES, "five measures and the gap, in detail", 5.4, across=3),
    "fig7": minima(
        {f"{name}_after": title for name, title in MEASURES.items()},
        "five measures after layers are rescaled",
        5.4,
        RESCALED,
        logarithmic=("x",),
        across=3,
    ),
    "fig8": minima(LAYERS, "relative flatness of another layer", 3.2),
}
