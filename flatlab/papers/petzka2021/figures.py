"""The paper petzka2021 and its figures."""

from flatlab.plan import Own, Paper

PAPER = Paper(
    title="Relative Flatness and Generalization",
    citation="Petzka, Kamp, Adilova, Sminchisescu and Boley, NeurIPS 2021",
    targets=("fig3", "fig4", "fig5", "fig6", "fig7", "fig8"),
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
}
