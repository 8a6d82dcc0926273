"""chen2026: what its sentences leave open, and what its text says for one way to take them."""

from flatlab.lab.claims import Reading

READINGS = {
    "loss": Reading(
        "half-mse",
        ("pooled", "cross-entropy"),
        "networks are trained with the squared loss, for which the bounds are derived; said after "
        "the joint grids, in which the declared statement pools two losses, were judged",
        "All networks are trained with MSE (quadratic) loss except for the pretrained ViTs in "
        "Section 4.3.",
        "Sec. 4",
    ),
    "window": Reading(
        "training",
        ("interpolation",),
        "what happens during the training is said of all of it; where a sentence means the part "
        "from interpolation on, it names the interpolation regime",
        "MLS/NMLS closely follows the trend of sharpness during the training.",
        "captions of Figs. I.10 and I.11",
    ),
    "weight": Reading(
        "iterations",
        ("log", "alike"),
        "time is told in iterations, so that a checkpoint counts for those that it stands for",
        "sharpness stops decreasing after about 5 10^4 iterations for a batch size of 32",
        "Sec. 4.1",
    ),
    "gap": Reading(
        "losses",
        ("accuracies",),
        "where the paper says what the gap is, it is one between the losses",
        "Here the flat minimum can exhibit a larger generalization gap than the sharp minimum",
        "caption of Fig. 1, on test loss and training loss",
    ),
    "compared": Reading(
        "compression",
        ("gap-losses", "gap-accuracies"),
        "the sentences stand among bounds on sensitivity, and of both sides of a bound one is a "
        "compression metric; what is said of the gap names it (App. H.2, 6)",
        "quantities that only consider a single layer of weights, such as the relative flatness "
        "[...] can exhibit a negative correlation between both sides of the bound in some cases",
        "Sec. 4.2",
    ),
    "settings": Reading(
        "five",
        ("drawn",),
        "no rates and batch sizes but those of Figs. 2 and 3 are named; that the hundred networks "
        "are of these is an assumption",
        "We trained 100 different models for each combination of datasets and networks by varying "
        "learning rates, batch size, and random initializations.",
        "caption of Fig. 4",
    ),
    "volume": Reading(
        "mean-log",
        ("mean",),
        "what is plotted and correlated is the log volume; Def. 3.3 averages before the logarithm",
        "log volume (Equation (7))",
        "App. H.2, captions of Figs. H.7 to H.9",
    ),
}
