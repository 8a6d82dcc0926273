"""The paper petzka2021 and its figures."""

from flatlab.plan import Own, Paper
from flatlab.plotting import captions

PAPER = Paper(
    title="Relative Flatness and Generalization",
    citation="Petzka, Kamp, Adilova, Sminchisescu and Boley, NeurIPS 2021",
    cited="Petzka et al. (2021)",
    targets=("fig3", "fig4", "fig5", "fig6", "fig7", "fig8"),
)

POINTS = (
    "A point is a network at the end of training; relative flatness is large where it is sharp."
)
GAP = "The gap is test minus training loss."
LAST_LAYER = (
    "Relative flatness, trace and squared norm are of the last layer's weights, its features "
    "divided by their standard deviation for relative flatness."
)
LINES = (
    "Lines: least squares. Pearson's correlation with its 95 % interval, and within settings where "
    "it has the other sign."
)

FIGURES = {
    "fig3": Own(
        "locally-constant-labels",
        title="relative flatness and generalization, by class separation",
        caption=(
            "Pearson's correlation over the data sets of a batch: mean over batches, with their "
            "standard deviation. The larger the separation, the more locally constant the labels. "
            "The authors' code reads the list of separations backwards (dashed)."
        ),
        details=(
            "(a) and (c): squared loss, κ without normalization. Each point of a dashed line is "
            "drawn at the separation that the authors' code reports, but its data have the "
            "separation of the mirrored point."
        ),
        size_inches=(7.1, 3.6),
    ),
    "fig4": Own(
        "representativeness",
        title="the approximated bound and the gap",
        caption=(
            "Means over models with standard deviations over samples. (a) Four Gaussian clusters, "
            "squared loss. (b) The authors' code, whose bound and gap are not in the same units."
        ),
        details=(
            "Bound: δ² κ_Tr / (2m) + representativeness, approximated from the "
            "training sample; each sample is the mean of its folds. (a) Models trained on two "
            "thirds of a sample. (b) Other data, models trained on 50 samples, and a zero-one "
            "error compared with a squared loss on other labels."
        ),
        size_inches=(7.1, 3.2),
    ),
    "fig5": Own(
        "minima-grid",
        title="five measures and the gap",
        caption=POINTS,
        details=(GAP, LAST_LAYER),
        size_inches=(7.1, 2.9),
    ),
    "fig6": Own(
        "minima-grid",
        title="five measures and the gap, in detail",
        caption=(POINTS, LINES),
        details=(GAP, LAST_LAYER, captions.INTERVALS),
        size_inches=(7.1, 5.4),
    ),
    "fig7": Own(
        "minima-grid",
        title="five measures after layers are rescaled",
        caption=(
            "Every network computes the same as before: its last layer was multiplied by a random "
            "integer between 5 and 25, and the layer before it divided by that number.",
            LINES,
        ),
        details=(GAP, LAST_LAYER, captions.INTERVALS),
        size_inches=(7.1, 5.4),
    ),
    "fig8": Own(
        "minima-grid",
        title="relative flatness of another layer",
        caption=(POINTS, LINES),
        details=(GAP, "Features are divided by their standard deviation.", captions.INTERVALS),
        size_inches=(7.1, 3.2),
    ),
}
