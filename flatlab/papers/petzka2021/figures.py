"""The paper petzka2021 and its figures."""

from flatlab.plan import Own, Paper

PAPER = Paper(
    title="Relative Flatness and Generalization",
    citation="Petzka, Kamp, Adilova, Sminchisescu and Boley, NeurIPS 2021",
    targets=("fig3", "fig4", "fig5", "fig6", "fig7", "fig8"),
)

GAP = "The gap is test minus training loss; relative flatness is large where the loss is sharp."
LAST_LAYER = (
    "Relative flatness, trace and squared norm are of the last layer's weights, its features "
    "divided by their standard deviation for relative flatness."
)
LINES = (
    "Lines: least squares. Pearson's correlation with its 95 % interval (jackknife over the seeds "
    "of each setting), and within settings where it has the other sign."
)

FIGURES = {
    "fig3": Own(
        "locally-constant-labels",
        title="relative flatness and generalization, by class separation",
        caption=(
            "Pearson's correlation over the data sets of a batch: mean over batches, with a bar of "
            "one standard deviation where there are several. The larger the class separation, the "
            "more locally constant the labels. Left and right: squared loss, kappa_Tr without "
            "normalization, in four variants. The authors' code reads the list of separations "
            "backwards: each point of a dashed line is drawn at the separation that the code "
            "reports, but its data have the separation of the mirrored point."
        ),
        size_inches=(11.0, 4.6),
    ),
    "fig4": Own(
        "representativeness",
        title="the approximated bound and the gap",
        caption=(
            "Bound: delta² / (2 m) kappa_Tr + representativeness, approximated from the training "
            "sample. Means over models, with bars of one standard deviation over samples (each the "
            "mean of its folds). Left: models trained on two thirds of a sample from four Gaussian "
            "clusters, squared loss. Right: the authors' public code, with other data, models "
            "trained on 50 samples, and a zero-one error compared with a squared loss on other "
            "labels, so that its bound and its gap are not in the same units."
        ),
        size_inches=(9.0, 4.4),
    ),
    "fig5": Own(
        "minima-grid",
        title="five measures and the gap",
        caption=("One point per network at the end of training.", GAP, LAST_LAYER),
        size_inches=(7.1, 2.9),
    ),
    "fig6": Own(
        "minima-grid",
        title="five measures and the gap, in detail",
        caption=(GAP, LAST_LAYER, LINES),
        size_inches=(7.1, 5.4),
    ),
    "fig7": Own(
        "minima-grid",
        title="five measures after layers are rescaled",
        caption=(
            "Every network computes the same as before: its last layer was multiplied by a random "
            "integer between 5 and 25, and the layer before it divided by that number.",
            *(GAP, LINES),
        ),
        size_inches=(7.1, 5.4),
    ),
    "fig8": Own(
        "minima-grid",
        title="relative flatness of another layer",
        caption=(GAP, "Features are divided by their standard deviation.", LINES),
        size_inches=(7.1, 3.2),
    ),
}
