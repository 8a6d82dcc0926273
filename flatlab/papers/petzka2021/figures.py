"""The paper petzka2021 and its figures."""

from flatlab.plan import Own, Paper

PAPER = Paper(
    title="Relative Flatness and Generalization",
    citation="Petzka, Kamp, Adilova, Sminchisescu and Boley, NeurIPS 2021",
    cited="Petzka et al. (2021)",
    targets=("fig3", "fig4", "fig5", "fig6", "fig7", "fig8"),
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
            r"Bound: $\delta^2 \kappa_{Tr} / (2m)$ + representativeness, approximated from the "
            "training sample; each sample is the mean of its folds. (a) Models trained on two "
            "thirds of a sample. (b) Other data, models trained on 50 samples, and a zero-one "
            "error compared with a squared loss on other labels."
        ),
        size_inches=(7.1, 3.2),
    ),
}
