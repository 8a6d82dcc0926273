"""andriushchenko2023, Figures 2-4, 8-15, Tables 1, 2: networks that others released.

These claims are about those networks, so that no others can decide them.
"""

import operator
from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from flatlab.core.schema import OWN
from flatlab.lab.claims import Predicate
from flatlab.lab.tables.eligibility import NotEligible, require
from flatlab.lab.tables.networks import Networks, ResultTables
from flatlab.papers.andriushchenko2023 import _names as zoos
from flatlab.papers.andriushchenko2023._names import TABLE1, TABLE2, Taus, sharpness
from flatlab.papers.andriushchenko2023.claims_recipes import (
    CLAIMS,
    FLATTEST,
    complete,
    error,
    gap,
    in_words,
)
from flatlab.stats.estimate import Estimate, over_seeds
from flatlab.stats.trends import mean
from flatlab.stats.verdict import Verdict, every, some, theorem

released = partial(CLAIMS, admits=(OWN,))

NORMALIZED, PLAIN = BOTH = zoos.NORMALIZED, zoos.PLAIN
FOUR, SHIFTED = zoos.FOUR, zoos.FOUR[1:]
RADII = (0, 1, 2)

NEAR_ZERO, SAME_TAU = 0.15, 0.15
"""Up to which tau is "close to zero", and up to which difference two of them are much the same."""

SEPARATED, MIXED = 0.95, 0.8
"""The area under the ROC curve of two clusters, and the largest of values that mix them."""


def networks(e: ResultTables, zoo: str) -> Networks:
    """The networks that were measured and do not fail the test."""
    return in_words(e[zoo]).at_most(**zoos.MEASURED, train_error=100.0)


def taus(
    e: ResultTables,
    zoo: str,
    definitions: Iterable[str],
    radii: Iterable[int],
    sets: Iterable[str],
    outcome: Callable[[str], str] = error,
) -> list[Estimate]:
    """Kendall's tau of sharpness and errors, or another outcome of each test set."""
    chosen = networks(e, zoo)
    return [
        chosen.tau(sharpness(definition, radius), outcome(test_set), among="pool")
        for definition, radius, test_set in product(definitions, radii, sets)
    ]


def every_tau(
    holds: Callable[..., Verdict], *which: Any, of: Callable[[Iterable[Verdict]], Verdict] = every
) -> Predicate:
    """The predicate that every tau of a zoo holds.

    holds: a verdict on a tau and, if there is one, on a threshold.
    which: zoo, definitions, radii and test sets, see `taus`.
    of: by default all of them have to.
    """
    return lambda e, *threshold: of(holds(tau, *threshold) for tau in taus(e, *which))


released(
    "fig2",
    f"with normalized logits |tau| < {NEAR_ZERO} on all four test sets",
    "Sec. 4, caption of Fig. 2",
    "Overall, the correlation of sharpness with test error is either close to zero or even "
    "negative.",
    threshold=NEAR_ZERO,
)(every_tau(Estimate.within, zoos.VIT, [NORMALIZED], [1], FOUR))
released(
    "fig2",
    "without normalized logits tau < 0 on all four test sets",
    "Sec. 4",
    "Surprisingly, there is a consistent *negative* correlation between sharpness and test error, "
    "both on ID and OOD data",
)(every_tau(lambda tau: tau < 0, zoos.VIT, [PLAIN], [1], FOUR))


def smaller_and_larger(chosen: Networks, name: str) -> list[Networks]:
    """Those with the smaller of two values of a hyper-parameter, and those with the larger."""
    levels = chosen.by(name)
    if len(levels) != 2:
        raise NotEligible(f"there are {len(levels)} values of {name}, two are needed")
    return [*levels.values()]


def separation(chosen: Networks, column: str, word: str) -> tuple[Estimate, float]:
    """Kendall's tau of a column and dropout, and its largest value, for groups that are apart.

    tau-a = (2 AUC - 1) 2 n_0 n_1 / (n (n - 1)), with AUC the area under the ROC curve, so that a
    claim about this area is one about tau, and has its interval.
    """
    without, dropped = (group.count for group in smaller_and_larger(chosen, "dropout"))
    named = chosen.labelled(**{column: word, "dropout": "group"})
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
    chosen = networks(e, zoos.VIT)
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
    chosen, verdicts = networks(e, zoos.VIT), []
    clusters = zip(("without", "with"), smaller_and_larger(chosen, "dropout"), strict=True)
    decays = smaller_and_larger(chosen, "weight_decay")
    for test_set, (word, cluster) in product(SHIFTED, [*clusters][::-1]):
        less, more = (group.among(cluster.chosen) for group in decays)
        count, of = min(less.count, more.count), f"{zoos.VIT} {word} dropout"
        require(count, of, "networks of each weight decay")
        label = f"error {test_set}, more - less weight decay; {word} dropout"
        verdicts.append(more.minus(less, error(test_set)).labelled(label) < 0)
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
    chosen, verdicts = networks(e, zoos.VIT), []
    for definition, test_set in product(BOTH, FOUR):
        values, errors = (chosen.column(x) for x in (sharpness(definition, 1), error(test_set)))
        flattest = errors[np.argsort(values)[: round(share * len(errors))]]
        require(len(flattest), f"the flattest of {zoos.VIT}")
        label = f"error {test_set} of the flattest, {definition}, less the median error"
        verdicts.append(over_seeds(label, mean, flattest - np.median(errors)) > 0)
    return every(verdicts)


released(
    "fig3",
    "|tau| on ImageNet is at most 0.2, with normalized logits and without",
    "Sec. 4, Fig. 3",
    "worst-case $\\ell_\\infty$ adaptive sharpness does not effectively predict which classifiers "
    "have the lowest test error on ImageNet",
    threshold=0.2,
)(every_tau(Estimate.within, zoos.CLIP, BOTH, [1], ["test"]))
released(
    "fig3",
    "tau < 0 on R, Sketch and A, with normalized logits and without",
    "Sec. 4, Fig. 3",
    "there is a consistent negative correlation between sharpness and test error when evaluating "
    "classifiers on the distribution shifts",
)(every_tau(lambda tau: tau < 0, zoos.CLIP, BOTH, [1], SHIFTED))


@released(
    "fig3",
    "the error on R, Sketch and A grows with the learning rate: tau > 0",
    "Sec. 4, Fig. 3",
    "higher test errors on these datasets go in parallel with higher learning rates used for "
    "fine-tuning",
)
def _(e: ResultTables) -> Verdict:
    chosen = networks(e, zoos.CLIP)
    return every(chosen.tau("lr", error(test_set), among="pool") > 0 for test_set in SHIFTED)


released(
    "fig4",
    "tau is at most 0.04 on MNLI and on all of HANS, with normalized logits and without",
    "Sec. 4, Fig. 4",
    "We observe that the correlation is weak and does not exceed 0.04",
)(every_tau(lambda tau: tau < 0.045, zoos.BERT, BOTH, [0], zoos.SENTENCES))
released(
    "fig4",
    "tau < 0 in at least one case",
    "Sec. 4, Fig. 4",
    "Moreover, in some cases the correlation is weakly negative",
)(every_tau(lambda tau: tau < 0, zoos.BERT, BOTH, [0], zoos.SENTENCES, of=some))


@released(
    "fig4",
    "errors on HANS lexical span at least 45 points, those on MNLI less than 2",
    "Sec. 4, Fig. 4",
    "HANS lexical (second column) where test errors vary significantly (between 45% and 95%)",
    nature="check",
)
def _(e: ResultTables) -> Verdict:
    errors = complete(networks(e, zoos.BERT), error("hans-lexical"), error("test"))
    lexical, clean = np.ptp(errors, axis=1)
    of_lexical = theorem("span of errors on HANS lexical >= 45", [45.0], [lexical])
    return of_lexical & theorem("span of errors on MNLI < 2", [clean], [2.0])


def gaps_are_alike(e: ResultTables, size: float, zoo: str) -> Verdict:
    """Taus with the gap are those with the error, up to a difference of Fisher's z."""
    of_errors, of_gaps = (taus(e, zoo, BOTH, [1], FOUR, to) for to in (error, gap))
    return every((b - a).within(size) for a, b in zip(of_errors, of_gaps, strict=True))


for figure, zoo in (("fig8", zoos.VIT), ("fig9", zoos.CLIP)):
    released(
        figure,
        f"tau with the gap less tau with the error is within {SAME_TAU} on all four test sets, on "
        "Fisher's z",
        "App. B",
        "We observe only small differences in the correlation values",
        threshold=SAME_TAU,
    )(partial(gaps_are_alike, zoo=zoo))

NOT_PREDICTIVE = {
    zoos.VIT: (
        "App. C",
        "In general, we observe that sharpness variants are not predictive of the performance on "
        "ImageNet and the OOD datasets",
    ),
    zoos.VIT21K: (
        "App. D",
        "sharpness variants are not predictive of the performance on ImageNet and the "
        "distribution shift datasets",
    ),
}
for figure, zoo, definition, radii, largest in (
    ("fig10", zoos.VIT, NORMALIZED, RADII, 0.1),
    ("fig11", zoos.VIT, PLAIN, RADII, 0.1),
    ("fig13", zoos.VIT, zoos.AVERAGE_PLAIN, RADII[:-1], 0.1),
    ("fig14", zoos.VIT21K, NORMALIZED, RADII, 0.15),
    ("fig15", zoos.VIT21K, PLAIN, RADII, 0.15),
):
    but = "" if radii == RADII else " but the largest"
    text = f"tau is below {largest} at every radius{but} and on all six test sets"
    small = every_tau(operator.lt, zoo, [definition], radii, zoos.IMAGES)
    released(figure, text, *NOT_PREDICTIVE[zoo], threshold=largest)(small)

released(
    "fig12",
    "average-case sharpness with normalized logits: tau > 0.25 at every radius, on all six test "
    "sets",
    "App. C",
    "The only case where low sharpness indicates low test-error is for logit-normalized "
    "average-case adaptive sharpness on ImageNet and ImageNet-v2.",
    threshold=0.25,
)(every_tau(operator.gt, zoos.VIT, [zoos.AVERAGE_NORMALIZED], RADII, zoos.IMAGES))


def as_printed(
    e: ResultTables, distance: float, printed: dict[str, Taus], sets: Iterable[str]
) -> Verdict:
    """All taus of a table are those of the paper."""
    return every(
        (tau < value + distance) & (tau > value - distance)
        for zoo, by_definition in printed.items()
        for definition, by_test_set in by_definition.items()
        for radius, values in enumerate(zip(*by_test_set, strict=True))
        for tau, value in zip(taus(e, zoo, [definition], [radius], sets), values, strict=True)
    )


for table, printed, sets, source in (
    ("table1", TABLE1, zoos.IMAGES, "App. C, Table 1"),
    ("table2", TABLE2, zoos.SENTENCES, "App. G, Table 2"),
):
    released(
        table,
        f"every tau is within {SAME_TAU} of the printed one",
        source,
        "A summary of correlation between sharpness and generalization",
        threshold=SAME_TAU,
    )(partial(as_printed, printed=printed, sets=sets))
