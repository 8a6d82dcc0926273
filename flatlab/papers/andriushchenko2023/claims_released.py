"""andriushchenko2023, Figures 2-4, 8-15, Tables 1, 2: networks that others released.

These claims are about those networks, so that no others can decide them.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from flatlab.claims.registry import Claims
from flatlab.claims.result_tables import ResultTables
from flatlab.papers.andriushchenko2023._printed import TABLE1, TABLE2, Taus
from flatlab.papers.andriushchenko2023._released import (
    AVERAGE_NORMALIZED,
    AVERAGE_PLAIN,
    BERT,
    CLIP,
    FOUR,
    IMAGES,
    MEASURED,
    NORMALIZED,
    PLAIN,
    SENTENCES,
    VIT,
    VIT21K,
)
from flatlab.papers.andriushchenko2023._sharpness import (
    FLATTEST,
    complete,
    error,
    gap,
    in_words,
    sharpness,
)
from flatlab.plan.schema import OWN
from flatlab.stats.estimate import Estimate, over_seeds
from flatlab.stats.trends import mean
from flatlab.stats.verdict import Verdict, every, some, theorem
from flatlab.tables.eligibility import NotEligible, require
from flatlab.tables.networks import Networks

RELEASED = Claims("andriushchenko2023")
released = partial(RELEASED, admits=(OWN,))

SHIFTED = FOUR[1:]
BOTH = (NORMALIZED, PLAIN)
RADII = range(3)

NEAR_ZERO = 0.15
"""The absolute tau below which the paper's "close to zero" is taken to be."""

SAME_TAU = 0.15
"""The largest difference of two taus that are called much the same."""

SEPARATED, MIXED = 0.95, 0.8
"""The area under the ROC curve of two clusters, and the largest of values that mix them."""


def networks(e: ResultTables, key: str) -> Networks:
    """The networks that were measured and do not fail the test."""
    return in_words(e[key]).at_most(**MEASURED, train_error=100.0)


def taus(
    e: ResultTables,
    key: str,
    definitions: Iterable[str],
    radii: Iterable[int],
    sets: Iterable[str],
    column: Callable[[str], str] = error,
) -> list[Estimate]:
    """Kendall's tau of sharpness and errors, or another column of each test set."""
    chosen = networks(e, key)
    return [
        chosen.tau(sharpness(definition, radius), column(test_set), among="pool")
        for definition, radius, test_set in product(definitions, radii, sets)
    ]


def smaller_and_larger(chosen: Networks, name: str) -> list[Networks]:
    """Those with the smaller of two values of a hyper-parameter, and those with the larger."""
    levels = chosen.by(name)
    if len(levels) != 2:
        raise NotEligible(f"there are {len(levels)} values of {name}, two are needed")
    return [levels[value] for value in sorted(levels)]


@released(
    "fig2",
    f"with normalized logits |tau| < {NEAR_ZERO} on all four test sets",
    "Sec. 4, caption of Fig. 2",
    "Overall, the correlation of sharpness with test error is either close to zero or even "
    "negative.",
    threshold=NEAR_ZERO,
)
def _(e: ResultTables, size: float) -> Verdict:
    return every(tau.within(size) for tau in taus(e, VIT, [NORMALIZED], [1], FOUR))


@released(
    "fig2",
    "without normalized logits tau < 0 on all four test sets",
    "Sec. 4",
    "Surprisingly, there is a consistent *negative* correlation between sharpness and test error, "
    "both on ID and OOD data",
)
def _(e: ResultTables) -> Verdict:
    return every(tau < 0 for tau in taus(e, VIT, [PLAIN], [1], FOUR))


def separation(chosen: Networks, column: str, word: str) -> tuple[Estimate, float]:
    """Kendall's tau of a column and dropout, and its largest value, for groups that are apart.

    tau-a = (2 AUC - 1) 2 n_0 n_1 / (n (n - 1)), with AUC the area under the ROC curve, so that a
    claim about this area is one about tau, and has its interval.
    """
    without, dropped = (group.count for group in smaller_and_larger(chosen, "dropout"))
    named = chosen.called(**{column: word, "dropout": "group"})
    (tau,) = named.taus((column, "dropout"), among="pool", where="")
    n = without + dropped
    return tau, 2 * dropped * without / max(n * (n - 1), 1)


@released(
    "fig2",
    f"normalized sharpness separates networks with dropout from those without (AUC > {SEPARATED} "
    f"in either direction), and test error does not (AUC between {1 - MIXED:g} and {MIXED})",
    "Sec. 4",
    "Logit-normalized sharpness effectively separates models with stochastic depth / dropout "
    "(sd/do from now on) from those without by grouping them into two distinct clusters",
)
def _(e: ResultTables) -> Verdict:
    chosen = networks(e, VIT)
    sharp, most = separation(chosen, sharpness(NORMALIZED, 1), "sharpness")
    wrong, _ = separation(chosen, error("test"), "test error")
    apart, mixed = ((2 * area - 1) * most for area in (SEPARATED, MIXED))
    return some([sharp > apart, sharp < -apart]) & wrong.within(mixed)


@released(
    "fig2",
    "with dropout and without, the larger weight decay has the lower error on R, Sketch and A",
    "Sec. 4",
    "within each cluster, the models trained with higher weight decay yield lower test error "
    "fairly consistently",
)
def _(e: ResultTables) -> Verdict:
    chosen = networks(e, VIT)
    without, dropped = smaller_and_larger(chosen, "dropout")
    clusters = {"with dropout": dropped, "without dropout": without}
    decays = [min(chosen.levels("weight_decay")), max(chosen.levels("weight_decay"))]
    verdicts = []
    for test_set, (words, cluster) in product(SHIFTED, clusters.items()):
        less, more = (cluster.where(weight_decay=decay) for decay in decays)
        for group in (more, less):
            require(group.count, f"{VIT} {words}", "networks of each weight decay")
        label = f"error {test_set}, more - less weight decay; {words}"
        verdicts.append(more.minus(less, error(test_set)).called(label) < 0)
    return every(verdicts)


@released(
    "fig2",
    f"the flattest {FLATTEST:.0%} of the networks are not better than the median network, on all "
    "four test sets, with normalized logits or without",
    "Sec. 4, summary of the findings",
    "To conclude, *none* of the settings studied above support either the strong or weak "
    "hypotheses about the role of sharpness.",
    threshold=FLATTEST,
)
def _(e: ResultTables, share: float) -> Verdict:
    chosen, verdicts = networks(e, VIT), []
    for definition, test_set in product(BOTH, FOUR):
        values, errors = (chosen.column(x) for x in (sharpness(definition, 1), error(test_set)))
        flattest = errors[np.argsort(values)[: round(share * len(errors))]]
        require(len(flattest), f"the flattest of {VIT}")
        label = f"error {test_set} of the flattest, {definition}, less the median error"
        verdicts.append(over_seeds(label, mean, flattest - np.median(errors)) > 0)
    return every(verdicts)


@released(
    "fig3",
    "|tau| on ImageNet is at most 0.2, with normalized logits and without",
    "Sec. 4, Fig. 3",
    "worst-case $\\ell_\\infty$ adaptive sharpness does not effectively predict which classifiers "
    "have the lowest test error on ImageNet",
    threshold=0.2,
)
def _(e: ResultTables, size: float) -> Verdict:
    return every(tau.within(size) for tau in taus(e, CLIP, BOTH, [1], ["test"]))


@released(
    "fig3",
    "tau < 0 on R, Sketch and A, with normalized logits and without",
    "Sec. 4, Fig. 3",
    "there is a consistent negative correlation between sharpness and test error when evaluating "
    "classifiers on the distribution shifts",
)
def _(e: ResultTables) -> Verdict:
    return every(tau < 0 for tau in taus(e, CLIP, BOTH, [1], SHIFTED))


@released(
    "fig3",
    "the error on R, Sketch and A grows with the learning rate: tau > 0",
    "Sec. 4, Fig. 3",
    "higher test errors on these datasets go in parallel with higher learning rates used for "
    "fine-tuning",
)
def _(e: ResultTables) -> Verdict:
    chosen = networks(e, CLIP)
    return every(chosen.tau("lr", error(test_set), among="pool") > 0 for test_set in SHIFTED)


@released(
    "fig4",
    "tau is at most 0.04 on MNLI and on all of HANS, with normalized logits and without",
    "Sec. 4, Fig. 4",
    "We observe that the correlation is weak and does not exceed 0.04",
)
def _(e: ResultTables) -> Verdict:
    return every(tau < 0.045 for tau in taus(e, BERT, BOTH, [0], SENTENCES))


@released(
    "fig4",
    "tau < 0 in at least one case",
    "Sec. 4, Fig. 4",
    "Moreover, in some cases the correlation is weakly negative",
)
def _(e: ResultTables) -> Verdict:
    return some(tau < 0 for tau in taus(e, BERT, BOTH, [0], SENTENCES))


@released(
    "fig4",
    "errors on HANS lexical span at least 45 points, those on MNLI less than 2",
    "Sec. 4, Fig. 4",
    "HANS lexical (second column) where test errors vary significantly (between 45% and 95%)",
    nature="check",
)
def _(e: ResultTables) -> Verdict:
    errors = complete(networks(e, BERT), error("hans-lexical"), error("test"))
    lexical, clean = np.ptp(errors, axis=1)
    of_lexical = theorem("span of errors on HANS lexical >= 45", [45.0], [lexical])
    return of_lexical & theorem("span of errors on MNLI < 2", [clean], [2.0])


def gaps_are_alike(figure: str, key: str) -> None:
    """The claim of Figures 8 and 9."""

    @released(
        figure,
        f"tau with the gap less tau with the error is within {SAME_TAU} on all four test sets, on "
        "Fisher's z",
        "App. B",
        "We observe only small differences in the correlation values",
        threshold=SAME_TAU,
    )
    def _(e: ResultTables, size: float) -> Verdict:
        errors, gaps = (taus(e, key, BOTH, [1], FOUR, column) for column in (error, gap))
        return every((gap - error).within(size) for gap, error in zip(gaps, errors, strict=True))


gaps_are_alike("fig8", VIT)
gaps_are_alike("fig9", CLIP)

NOT_PREDICTIVE = (
    "In general, we observe that sharpness variants are not predictive of the performance on "
    "ImageNet and the OOD datasets"
)
SIMILAR = (
    "sharpness variants are not predictive of the performance on ImageNet and the distribution "
    "shift datasets"
)


def below(figure: str, key: str, definition: str, size: float, but: str = "") -> None:
    """No tau of a figure with three radii is large.  but: an exception, the largest radius."""

    @released(
        figure,
        f"tau is below {size} at every radius{but} and on all six test sets",
        "App. C" if key == VIT else "App. D",
        NOT_PREDICTIVE if key == VIT else SIMILAR,
        threshold=size,
    )
    def _(e: ResultTables, largest: float) -> Verdict:
        radii = RADII[:-1] if but else RADII
        return every(tau < largest for tau in taus(e, key, [definition], radii, IMAGES))


below("fig10", VIT, NORMALIZED, 0.1)
below("fig11", VIT, PLAIN, 0.1)
below("fig13", VIT, AVERAGE_PLAIN, 0.1, but=" but the largest")
below("fig14", VIT21K, NORMALIZED, 0.15)
below("fig15", VIT21K, PLAIN, 0.15)


@released(
    "fig12",
    "average-case sharpness with normalized logits: tau > 0.25 at every radius, on all six test "
    "sets",
    "App. C",
    "The only case where low sharpness indicates low test-error is for logit-normalized "
    "average-case adaptive sharpness on ImageNet and ImageNet-v2.",
    threshold=0.25,
)
def _(e: ResultTables, least: float) -> Verdict:
    return every(tau > least for tau in taus(e, VIT, [AVERAGE_NORMALIZED], RADII, IMAGES))


def as_printed(figure: str, printed: dict[str, Taus], sets: Sequence[str], source: str) -> None:
    """All taus of a table are those of the paper."""

    @released(
        figure,
        f"every tau is within {SAME_TAU} of the printed one",
        source,
        "A summary of correlation between sharpness and generalization",
        threshold=SAME_TAU,
    )
    def _(e: ResultTables, distance: float) -> Verdict:
        verdicts = []
        for key, by_definition in printed.items():
            for definition, by_test_set in by_definition.items():
                ours = taus(e, key, [definition], RADII, sets)
                theirs = np.transpose(by_test_set).ravel()  # by radius, then by test set
                verdicts += [
                    (tau < value + distance) & (tau > value - distance)
                    for tau, value in zip(ours, theirs, strict=True)
                ]
        return every(verdicts)


as_printed("table1", TABLE1, tuple(IMAGES), "App. C, Table 1")
as_printed("table2", TABLE2, tuple(SENTENCES), "App. G, Table 2")
