"""What andriushchenko2023 says of networks that others released: Figures 2-4, 8-15, Tables 1, 2.

These claims are about those networks, so that no others can decide them.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from flatlab.claims import Evidence, FigureClaims, numbered
from flatlab.claims.eligibility import enough
from flatlab.papers.andriushchenko2023._printed_released import TABLE1, TABLE2, Taus
from flatlab.papers.andriushchenko2023._released import (
    AVERAGE_NORMALIZED,
    AVERAGE_PLAIN,
    BERT,
    CLIP,
    FOUR,
    IMAGES,
    NORMALIZED,
    PLAIN,
    SENTENCES,
    VIT,
    VIT21K,
)
from flatlab.papers.andriushchenko2023._released_pools import (
    has_the_larger,
    of_gaps,
    pool,
    said,
    separation,
    taus,
)
from flatlab.stats import Verdict, every, over_seeds, some, theorem
from flatlab.stats.trends import difference, mean

SHIFTED = FOUR[1:]
BOTH = (NORMALIZED, PLAIN)
WEAK = 0.15
"""The absolute tau below which the paper's "close to zero" is taken to be."""

SAME = 0.15
"""The largest difference of two taus that are called much the same."""

SEPARATED, MIXED = 0.95, 0.8
"""The area under the ROC curve of two clusters, and the largest of values that mix them."""

FLATTEST = 0.1
"""The share of the networks that are the flattest ones."""


@said(
    f"with normalized logits |tau| < {WEAK} on all four test sets",
    "Sec. 4, caption of Fig. 2",
    "Overall, the correlation of sharpness with test error is either close to zero or even "
    "negative.",
    threshold=WEAK,
)
def is_weak(e: Evidence, size: float) -> Verdict:
    return every(tau.within(size) for tau in taus(e, VIT, [NORMALIZED], [1], FOUR))


@said(
    "without normalized logits tau < 0 on all four test sets",
    "Sec. 4",
    "Surprisingly, there is a consistent *negative* correlation between sharpness and test error, "
    "both on ID and OOD data",
)
def is_negative(e: Evidence) -> Verdict:
    return every(tau < 0 for tau in taus(e, VIT, [PLAIN], [1], FOUR))


@said(
    f"normalized sharpness separates networks with dropout from those without (AUC > {SEPARATED} "
    f"in either direction), and test error does not (AUC between {1 - MIXED:g} and {MIXED})",
    "Sec. 4",
    "Logit-normalized sharpness effectively separates models with stochastic depth / dropout "
    "(sd/do from now on) from those without by grouping them into two distinct clusters",
)
def separates(e: Evidence) -> Verdict:
    networks = pool(e, VIT, "dropout")
    frame = networks.columns((NORMALIZED, 1), "test")
    larger = has_the_larger(frame, "dropout")
    sharp, most = separation("sharpness", frame[networks.column((NORMALIZED, 1))[0]], larger)
    wrong, _ = separation("test error", frame[networks.column("test")[0]], larger)
    apart, mixed = ((2 * area - 1) * most for area in (SEPARATED, MIXED))
    return some([sharp > apart, sharp < -apart]) & wrong.within(mixed)


@said(
    "with dropout and without, the larger weight decay has the lower error on R, Sketch and A",
    "Sec. 4",
    "within each cluster, the models trained with higher weight decay yield lower test error "
    "fairly consistently",
)
def decay_helps(e: Evidence) -> Verdict:
    networks = pool(e, VIT, "dropout", "weight_decay")
    frame = networks.columns(*SHIFTED)
    dropped, decayed = (has_the_larger(frame, name) for name in ("dropout", "weight_decay"))
    verdicts = []
    for key, (words, cluster) in itertools.product(
        SHIFTED, {"with dropout": dropped, "without dropout": ~dropped}.items()
    ):
        errors = frame[networks.column(key)[0]].to_numpy()
        more, less = errors[cluster & decayed], errors[cluster & ~decayed]
        for part in (more, less):
            enough(len(part), f"{VIT} {words}", "networks of each weight decay")
        name = f"error {key}, more - less weight decay; {words}"
        verdicts.append(difference(name, more, less) < 0)
    return every(verdicts)


@said(
    f"the flattest {FLATTEST:.0%} of the networks are not better than the median network, on all "
    "four test sets, with normalized logits or without",
    "Sec. 4, summary of the findings",
    "To conclude, *none* of the settings studied above support either the strong or weak "
    "hypotheses about the role of sharpness.",
    threshold=FLATTEST,
)
def flattest_are_not_better(e: Evidence, share: float) -> Verdict:
    networks, verdicts = pool(e, VIT), []
    for definition, key in itertools.product(BOTH, FOUR):
        sharpness, error = networks.column((definition, 1))[0], networks.column(key)[0]
        errors = networks.columns((definition, 1), key).sort_values(sharpness)[error].to_numpy()
        chosen = errors[: round(share * len(errors))]
        enough(len(chosen), f"the flattest of {VIT}")
        name = f"error {key} of the flattest, {definition}, less the median error"
        verdicts.append(over_seeds(name, mean, chosen - np.median(errors)) > 0)
    return every(verdicts)


@said(
    "|tau| on ImageNet is at most 0.2, with normalized logits and without",
    "Sec. 4, Fig. 3",
    "worst-case $\\ell_\\infty$ adaptive sharpness does not effectively predict which classifiers "
    "have the lowest test error on ImageNet",
    threshold=0.2,
)
def says_nothing_of_imagenet(e: Evidence, size: float) -> Verdict:
    return every(tau.within(size) for tau in taus(e, CLIP, BOTH, [1], ["test"]))


@said(
    "tau < 0 on R, Sketch and A, with normalized logits and without",
    "Sec. 4, Fig. 3",
    "there is a consistent negative correlation between sharpness and test error when evaluating "
    "classifiers on the distribution shifts",
)
def is_negative_when_shifted(e: Evidence) -> Verdict:
    return every(tau < 0 for tau in taus(e, CLIP, BOTH, [1], SHIFTED))


@said(
    "the error on R, Sketch and A grows with the learning rate: tau > 0",
    "Sec. 4, Fig. 3",
    "higher test errors on these datasets go in parallel with higher learning rates used for "
    "fine-tuning",
)
def rates_hurt(e: Evidence) -> Verdict:
    return every(pool(e, CLIP).tau("lr", key) > 0 for key in SHIFTED)


@said(
    "tau is at most 0.04 on MNLI and on all of HANS, with normalized logits and without",
    "Sec. 4, Fig. 4",
    "We observe that the correlation is weak and does not exceed 0.04",
)
def does_not_exceed(e: Evidence) -> Verdict:
    return every(tau < 0.045 for tau in taus(e, BERT, BOTH, [0], SENTENCES))


@said(
    "tau < 0 in at least one case",
    "Sec. 4, Fig. 4",
    "Moreover, in some cases the correlation is weakly negative",
)
def is_negative_somewhere(e: Evidence) -> Verdict:
    return some(tau < 0 for tau in taus(e, BERT, BOTH, [0], SENTENCES))


@said(
    "errors on HANS lexical span at least 45 points, those on MNLI less than 2",
    "Sec. 4, Fig. 4",
    "HANS lexical (second column) where test errors vary significantly (between 45% and 95%)",
    nature="check",
)
def varies_when_shifted(e: Evidence) -> Verdict:
    errors = pool(e, BERT).columns("hans-lexical", "test")
    enough(len(errors), BERT)
    lexical, clean = np.ptp(errors.to_numpy(), axis=0)
    of_lexical = theorem("span of errors on HANS lexical >= 45", [45.0], [lexical])
    return of_lexical & theorem("span of errors on MNLI < 2", [clean], [2.0])


def gaps_are_alike(key: str) -> FigureClaims:
    """The claim of Figures 8 and 9."""

    @said(
        f"tau with the gap less tau with the error is within {SAME} on all four test sets, on "
        "Fisher's z",
        "App. B",
        "We observe only small differences in the correlation values",
        threshold=SAME,
    )
    def alike(e: Evidence, size: float) -> Verdict:
        errors = taus(e, key, BOTH, [1], FOUR)
        gaps = [of_gaps(e, key, each, 1, name) for each, name in itertools.product(BOTH, FOUR)]
        return every((gap - error).within(size) for gap, error in zip(gaps, errors, strict=True))

    return numbered(alike)


def at_most(key: str, definition: str, size: float, quote: str, *, but: str = "") -> FigureClaims:
    """That no tau of a figure with three radii is large.  but: an exception, the largest radius."""
    radii = range(2 if but else 3)

    @said(
        f"tau is below {size} at every radius{but} and on all six test sets",
        "App. C" if key == VIT else "App. D",
        quote,
        threshold=size,
    )
    def small(e: Evidence, largest: float) -> Verdict:
        return every(tau < largest for tau in taus(e, key, [definition], radii, IMAGES))

    return numbered(small)


@said(
    "average-case sharpness with normalized logits: tau > 0.25 at every radius, on all six test "
    "sets",
    "App. C",
    "The only case where low sharpness indicates low test-error is for logit-normalized "
    "average-case adaptive sharpness on ImageNet and ImageNet-v2.",
    threshold=0.25,
)
def is_positive(e: Evidence, least: float) -> Verdict:
    return every(tau > least for tau in taus(e, VIT, [AVERAGE_NORMALIZED], range(3), IMAGES))


def as_printed(
    keys: Sequence[str], printed: Taus, sets: Sequence[str], source: str
) -> FigureClaims:
    """The claim that all taus of a table are those of the paper."""

    @said(
        f"every tau is within {SAME} of the printed one",
        source,
        "A summary of correlation between sharpness and generalization",
        threshold=SAME,
    )
    def agrees(e: Evidence, distance: float) -> Verdict:
        verdicts = []
        for key in keys:
            for definition, theirs in printed[key].items():
                numbers = np.array(theirs).T.ravel()  # by radius, then by test set
                ours = taus(e, key, [definition], range(3), sets)
                verdicts += [
                    (tau < there + distance) & (tau > there - distance)
                    for tau, there in zip(ours, numbers, strict=True)
                ]
        return every(verdicts)

    return numbered(agrees)


NOT_PREDICTIVE = (
    "In general, we observe that sharpness variants are not predictive of the performance on "
    "ImageNet and the OOD datasets"
)
SIMILAR = (
    "sharpness variants are not predictive of the performance on ImageNet and the distribution "
    "shift datasets"
)
CLAIMS: dict[str, FigureClaims] = {
    "fig2": numbered(is_weak, is_negative, separates, decay_helps, flattest_are_not_better),
    "fig3": numbered(says_nothing_of_imagenet, is_negative_when_shifted, rates_hurt),
    "fig4": numbered(does_not_exceed, is_negative_somewhere, varies_when_shifted),
    "fig8": gaps_are_alike(VIT),
    "fig9": gaps_are_alike(CLIP),
    "fig10": at_most(VIT, NORMALIZED, 0.1, NOT_PREDICTIVE),
    "fig11": at_most(VIT, PLAIN, 0.1, NOT_PREDICTIVE),
    "fig12": numbered(is_positive),
    "fig13": at_most(VIT, AVERAGE_PLAIN, 0.1, NOT_PREDICTIVE, but=" but the largest"),
    "fig14": at_most(VIT21K, NORMALIZED, 0.15, SIMILAR),
    "fig15": at_most(VIT21K, PLAIN, 0.15, SIMILAR),
    "table1": as_printed((VIT, VIT21K, CLIP), TABLE1, tuple(IMAGES), "App. C, Table 1"),
    "table2": as_printed((BERT,), TABLE2, tuple(SENTENCES), "App. G, Table 2"),
}
