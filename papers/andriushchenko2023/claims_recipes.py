"""andriushchenko2023, Figures 5 and 6, Tables 3 and 4: networks trained by twelve recipes.

They are about networks with a training error of at most 1 %, for the sharpness that the figures
show, with normalized logits and without; groups are those of the same augmentation and mixup. Each
claim is of ResNets, or with -vit of SimpleViTs; with -unaugmented it is of the groups without
augmentation alone; with -within it is about the networks of each group.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from flatlab.core.schema import OWN, REDUCED
from flatlab.lab.claims import Claims
from flatlab.lab.tables.eligibility import (
    FEWEST_FOR_MEAN,
    FEWEST_FOR_RANKS,
    NotEligible,
    require,
    unless_missing,
)
from flatlab.lab.tables.networks import Networks, ResultTables
from flatlab.papers.andriushchenko2023._names import TABLE3, TABLE4, Taus, sharpness
from flatlab.stats.estimate import Array, Estimate, over_seeds, undefined
from flatlab.stats.trends import mean
from flatlab.stats.verdict import Verdict, every, not_run, some

CLAIMS = Claims("andriushchenko2023")


# Columns of sharpness and errors, also of released networks ---------------------------------------
FLATTEST = 0.1
"""The share of the networks that are the flattest ones."""


def error(test_set: str) -> str:
    """The column of the error on a test set."""
    return f"test_set_error[{test_set}]"


def gap(test_set: str) -> str:
    """The column of that error less the training error."""
    return f"test_set_error_gap[{test_set}]"


def in_words(networks: Networks) -> Networks:
    """The same, with words for columns: "worst-adaptive-linf at 0.002", "error on test"."""
    data = networks.data
    if "sharpness_at_radius" not in data:
        raise NotEligible(f"{networks.key} has no sharpness_at_radius")
    words: dict[str, str] = {}
    for name in data["test_set"].values if "test_set" in data.dims else ():
        words |= {error(name): f"error on {name}", gap(name): f"error on {name} - train_error"}
    for radii in data["sharpness_radius"].isel(run=slice(1)):
        words |= {
            sharpness(name, place): f"{name} at {radius:g}"
            for name in data["definition"].values
            for place, radius in enumerate(radii.sel(definition=name).values)
        }
    return networks.labelled(networks.name or networks.key, **words)


def complete(
    networks: Networks, *names: str, statistic: str = "a mean", least: int = FEWEST_FOR_MEAN
) -> Array:
    """Columns of the networks for which all are finite: (names, networks).

    networks: as many as a statistic needs.
    names: of the columns.
    statistic, least: what needs how many networks.
    """
    columns = np.array([networks.column(name) for name in names])
    columns = columns[:, np.isfinite(columns).all(axis=0)]
    require(columns.shape[1], networks.context, statistic=statistic, least=least)
    return columns


# Networks trained by recipes ---------------------------------------------------------------------
RESNETS, VITS = "recipes-grid", "recipes-vit-grid"
GROUPS = ("augmentation", "mixup_alpha")
LARGEST_ERROR = 1.0
"""The training error, in %, of a network that fits."""

NORMALIZED, PLAIN = SHOWN = (
    sharpness("worst-normalized-linf", 0),
    sharpness("worst-adaptive-linf", 0),
)
"""The sharpness that the figures show."""


class Kind(NamedTuple):
    """The networks that a claim is about.

    name: what claims call them.
    key: their experiment.
    augmentation: their only one, if not any.
    within: whether the claim is about the networks of each group.
    """

    name: str
    key: str
    augmentation: str = ""
    within: bool = False

    def networks(self, e: ResultTables) -> Networks:
        """All of them, those that do not fit included."""
        networks = e[self.key].labelled(self.key)
        if self.augmentation:
            networks = networks.where(augmentation=self.augmentation)
        return in_words(networks)


def that_fit(networks: Networks) -> Networks:
    """Those with a small training error."""
    return networks.at_most(train_error=LARGEST_ERROR)


def groups(networks: Networks) -> list[Networks]:
    """Those of each augmentation and mixup."""

    def named(group: Networks) -> Networks:
        levels = ", ".join(f"{name} {group.selection[name]}" for name in GROUPS)
        return group.labelled(f"{networks.name}, {levels}")

    return [named(group) for group in networks.by(*GROUPS).values()]


def tau(networks: Networks, x: str, y: str) -> Estimate:
    """Kendall's tau over the networks that fit."""
    return that_fit(networks).tau(x, y, among="pool")


def taus_within(networks: Networks, x: str, y: str) -> list[Estimate]:
    """The same within each group; one with too few networks says what it takes."""
    inside = [(group, tau(group, x, y)) for group in groups(networks)]
    return [
        undefined(tau.name, f"{tau.reason}; {_shortage(group)}") if tau.reason else tau
        for group, tau in inside
    ]


def excess_within(networks: Networks, x: str, y: str) -> list[Estimate]:
    """How much tau within each group exceeds that over all: z less z, stratified by group."""
    chosen, whole = that_fit(networks), tau(networks, x, y)
    finite = np.isfinite(chosen.column(x)) & np.isfinite(chosen.column(y))
    names = np.empty(len(chosen.chosen), dtype=object)
    for group in groups(networks):
        names[group.rows] = group.name
    names = names[chosen.rows][finite]
    strata = np.unique(names.astype(str), return_inverse=True)[1]
    excess = []
    for group, inside in zip(groups(networks), taus_within(networks, x, y), strict=True):
        if inside.reason or whole.reason:
            excess.append(inside - whole)
            continue
        without_one = np.full(len(names), inside.point)
        without_one[names == group.name] = inside.jackknife_values
        excess.append(
            replace(inside, jackknife_values=without_one, strata=strata)
            - replace(whole, strata=strata)
        )
    return excess


def counts(networks: Networks) -> list[dict[str, Any]]:
    """How many networks fit, of all and of each group, as entries of the evidence."""
    label = f"networks with train_error <= {LARGEST_ERROR:g}"
    return [
        {"quantity": f"{label}; {at.name}", "value": that_fit(at).count, "n": at.count}
        for at in (networks, *groups(networks))
    ]


def fact(networks: Networks, quantity: str, value: float, true: bool) -> Verdict:
    """A verdict on the networks that fit as they are: none is drawn, nothing is estimated."""
    entry = {"quantity": f"{quantity}; {networks.name}", "value": value}
    entry |= {"claim": "of these networks", "n": that_fit(networks).count}
    return Verdict("holds" if true else "fails", (), [entry])


def _shortage(group: Networks) -> str:
    """How many networks of a group fit, and what it would take."""
    fit, median = that_fit(group).count, np.nanmedian(group.column("train_error"))
    takes = ["more of them"] if group.count < FEWEST_FOR_RANKS else []
    takes += ["longer training or wider networks"] if fit < group.count else []
    limit = f"a train error of at most {LARGEST_ERROR:g} (median {median:.3g})"
    return (
        f"{fit} of its {group.count} networks have {limit}: it takes {' and '.join(takes)}, for at "
        f"least {FEWEST_FOR_RANKS}"
    )


# Claims ------------------------------------------------------------------------------------------
Judge = Callable[..., Verdict]
"""Of networks and, if there is one, of a threshold."""

CLEAN, CORRUPTED = TEST_SETS = error("test"), error("corrupted")

RESNET, VIT = Kind("ResNets", RESNETS), Kind("SimpleViTs", VITS)
UNAUGMENTED = Kind("ResNets without augmentation", RESNETS, "none")
GROUPED = {"": RESNET, "-unaugmented": UNAUGMENTED}
BOTH = {"": RESNET, "-vit": VIT}
BOTH_AND_WITHIN = BOTH | {
    f"-within{ending}": kind._replace(within=True)
    for ending, kind in (BOTH | {"-unaugmented": UNAUGMENTED}).items()
}
"""Variants of a claim, by the endings of their keys."""

STRONG, WEAK, CLEAR = 0.5, 0.3, 0.2
"""A tau above the first is strong: the paper's bold entries; assumptions: weak below the second,
and its sign is clear above the third."""

TIMES = 10
SAME_ERROR = 0.2
"""Points of error; assumption: networks that differ by less have the same error."""

LARGER = 0.1
"""How much larger a |tau| is, of Fisher's z, that is clearly larger; an assumption."""

LOWER = 0.25
"""The quantile of all errors that is good."""

NEITHER = "we find no empirical support to either the strong or weak hypothesis."
LEARNING_RATE = (
    "For both ResNets and ViTs, we observe a significant negative correlation, especially within "
    "each subgroup defined by the same values of augment × mixup."
)


def judged(judge: Judge, kind: Kind, e: ResultTables, *threshold: float) -> Verdict:
    """The verdict on one kind of networks, with their numbers."""
    networks = kind.networks(e)
    if kind.within:
        inside = [partial(judge, group, *threshold) for group in groups(networks)]
        verdict = every(unless_missing(of_group, not_run) for of_group in inside)
    else:
        verdict = judge(networks, *threshold)
    return verdict.reporting(*counts(networks))


def claim(
    name: str, kinds: Mapping[str, Kind], text: str, quote: str, **about: Any
) -> Callable[[Judge], None]:
    """Register a claim about several kinds of networks.

    name: "fig5/c1", of the first one.
    kinds: by the endings of their keys.
    text, quote, about: see `Claims`.
    """
    figure, key = name.split("/")

    def register(judge: Judge) -> None:
        for ending, kind in kinds.items():
            words = f"{kind.name}: {'within each group: ' * kind.within}{text}"
            repeats = name if kind.within or kind.augmentation else ""
            options = {"key": f"{key}{ending}", "repeats": repeats, **about}
            CLAIMS(figure, words, "Sec. 5.1", quote, **options)(partial(judged, judge, kind))

    return register


@claim(
    "fig5/c1",
    GROUPED,
    f"tau(sharpness, error) > {STRONG} within each group, and < {STRONG} in size over all",
    "We observe that for ResNets, there is a strong correlation between sharpness and test error "
    "but only within each subgroup of training parameters such as augmentations and mixup.",
    threshold=STRONG,
)
def _(networks: Networks, strong: float) -> Verdict:
    within = [inside > strong for x in SHOWN for inside in taus_within(networks, x, CLEAN)]
    return every([*within, *(tau(networks, x, CLEAN).within(strong) for x in SHOWN)])


claim(
    "fig5/c2",
    {"": RESNET},
    "tau(sharpness, error) > 0 with normalized logits, and < 0 without",
    "Importantly, sharpness does not correctly capture generalization between different subgroups "
    "leading to low positive or negative correlation (0.30 and −0.36).",
)(lambda networks: (tau(networks, NORMALIZED, CLEAN) > 0) & (tau(networks, PLAIN, CLEAN) < 0))
claim(
    "fig5/c3",
    {"": VIT},
    f"tau(sharpness without normalized logits, error) < -{WEAK}",
    "For ViTs, we do not observe strong positive correlation even within each subgroup (in fact, "
    "without logit normalization the correlation is noticeably negative −0.68)",
    threshold=WEAK,
)(lambda networks, weak: tau(networks, PLAIN, CLEAN) < -weak)


@claim(
    "fig5/c4",
    {"": VIT._replace(name="SimpleViTs, either kind of logits")},
    f"some network is {TIMES} times sharper than another one within {SAME_ERROR} points",
    "many models with an order of magnitude difference in sharpness can have the same test error.",
    threshold=SAME_ERROR,
)
def _(networks: Networks, points: float) -> Verdict:
    def for_logits(x: str) -> Verdict:
        values, errors = complete(that_fit(networks), x, CLEAN)
        one, other = np.nonzero(np.triu(np.abs(errors[:, None] - errors) < points, 1))
        if not len(one):
            raise NotEligible(
                f"no two networks of {networks.name} have errors within {points:g} points"
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.maximum(*values[[one, other]]) / np.minimum(*values[[one, other]])
        largest = float(np.nanmax(ratios))
        quantity = f"largest ratio of {networks.word(x)} for errors within {points:g} points"
        return fact(networks, quantity, largest, largest >= TIMES)

    return every(map(for_logits, SHOWN))


@claim(
    "fig5/c5",
    BOTH_AND_WITHIN,
    "for some kind of logits the network with the lowest sharpness is not the best",
    "we do not consistently observe that models with the lowest sharpness generalize best.",
)
def _(networks: Networks) -> Verdict:
    verdicts = []
    for x in SHOWN:
        values, errors = complete(that_fit(networks), x, CLEAN)
        behind = float(errors[values.argmin()] - errors.min())
        flattest = f"{networks.word(CLEAN)} of the network with the lowest {networks.word(x)}"
        verdicts.append(fact(networks, f"{flattest} - smallest error", behind, behind > 0))
    return some(verdicts)


@claim(
    "fig5/c6",
    BOTH_AND_WITHIN,
    f"|tau| with the error on corrupted images - |tau| with the test error < {LARGER} (z)",
    "For OOD generalization on common image corruptions [...] the trend is even less clear and the "
    "subgroups are mixed.",
    threshold=LARGER,
)
def _(networks: Networks, larger: float) -> Verdict:
    def size(x: str, test_set: str) -> Estimate:
        signed = tau(networks, x, test_set)
        return -signed if signed.point < 0 else signed

    return every(size(x, CORRUPTED) - size(x, CLEAN) < larger for x in SHOWN)


claim(
    "fig5/c7",
    BOTH_AND_WITHIN,
    f"the strong hypothesis fails: tau(sharpness, error) < {STRONG}, on test images and corrupted "
    "ones",
    NEITHER,
    threshold=STRONG,
)(
    lambda networks, strong: every(
        tau(networks, x, test_set) < strong for x in SHOWN for test_set in TEST_SETS
    )
)


@claim(
    "fig5/c8",
    BOTH_AND_WITHIN,
    "the weak hypothesis fails: the flattest tenth, or five networks if these are more, has a mean "
    "error above the lower quartile",
    NEITHER,
)
def _(networks: Networks) -> Verdict:
    def of_flattest(x: str) -> Estimate:
        needs: Any = {"statistic": "it", "least": FEWEST_FOR_RANKS}
        values, errors = complete(that_fit(networks), x, CLEAN, **needs)
        count = max(round(FLATTEST * len(errors)), FEWEST_FOR_MEAN)
        flattest = errors[np.argsort(values)[:count]]
        words = f"{networks.word(CLEAN)} of the {count} flattest by {networks.word(x)}"
        label = f"{words} - lower quartile; {networks.name}"
        return over_seeds(label, mean, flattest - np.quantile(errors, LOWER))

    return every(of_flattest(x) > 0 for x in SHOWN)


claim("fig6/c1", BOTH, "tau(sharpness, learning rate) < 0", LEARNING_RATE)(
    lambda networks: every(tau(networks, x, "lr") < 0 for x in SHOWN)
)
claim(
    "fig6/c2",
    GROUPED | {"-vit": VIT},
    "tau(sharpness, learning rate) is lower within each group than over all",
    LEARNING_RATE,
)(lambda networks: every(excess < 0 for x in SHOWN for excess in excess_within(networks, x, "lr")))


def cells(networks: Networks, printed: Taus) -> Iterator[tuple[float, Estimate]]:
    """Each printed tau, and ours."""
    for definition, by_test_set in printed.items():
        for test_set, taus in zip(TEST_SETS, by_test_set, strict=True):
            for radius, theirs in enumerate(taus):
                yield theirs, tau(networks, sharpness(definition, radius), test_set)


def same_signs(printed: Taus, networks: Networks, least: float) -> Verdict:
    """Every tau has the printed sign, where that is clear."""
    clear = ((theirs, ours) for theirs, ours in cells(networks, printed) if abs(theirs) > least)
    return every(ours > 0 if theirs > 0 else ours < 0 for theirs, ours in clear)


def none_positive(printed: Taus, networks: Networks, limit: float) -> Verdict:
    """No tau is above a limit."""
    return every(ours < limit for _, ours in cells(networks, printed))


for table, kind, printed, words in (
    ("table3", RESNET, TABLE3[RESNETS], "ResNets-18"),
    ("table4", VIT, TABLE4[VITS], "ViTs"),
):
    place = f"Table {table.removeprefix('table')}"
    CLAIMS(
        table,
        f"every tau whose printed value is above {CLEAR} in size has its sign",
        f"App. H.4, {place}",
        "A summary of correlation between sharpness and generalization for all experiments on "
        f"CIFAR-10 for {words} trained from scratch.",
        threshold=CLEAR,
        admits=(OWN, REDUCED),
    )(partial(judged, partial(same_signs, printed), kind))
    CLAIMS(
        table,
        f"tau < {WEAK} for every definition and radius, on both test sets",
        f"App. H, {place}",
        "Overall, we conclude that none of the considered sharpness definitions or radii "
        "correlates positively with generalization nor that low sharpness implies good performance "
        "of the model.",
        threshold=WEAK,
    )(partial(judged, partial(none_positive, printed), kind))
