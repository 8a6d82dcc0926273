"""Claims about networks trained by twelve recipes: andriushchenko2023, Figures 5, 6, Tables 3, 4.

They are about networks with a training error of at most 1 %, for the sharpness that the figures
show, with normalized logits and without; groups are those of the same augmentation and mixup. Each
claim is of ResNets, or with -vit of SimpleViTs; with -unaugmented it is of the groups without
augmentation alone; with -within it is about the networks of each group.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from flatlab.claims import Claim, Evidence, FigureClaims, numbered
from flatlab.claims.eligibility import NotThere, enough
from flatlab.claims.evidence import attempt
from flatlab.claims.ranks import Pool, Sharpness
from flatlab.papers.andriushchenko2023._printed import TABLE3, TABLE4, Taus
from flatlab.plan.schema import OWN, REDUCED
from flatlab.stats import Estimate, Verdict, every, some

RESNETS, VITS = "recipes-grid", "recipes-vit-grid"
GROUPS = ("augmentation", "mixup_alpha")
UNAUGMENTED = {"augmentation": "none"}
FITTED = {"train_error": 1.0}
NORMALIZED: Sharpness = ("worst-normalized-linf", 0)
PLAIN: Sharpness = ("worst-adaptive-linf", 0)
SHOWN = (NORMALIZED, PLAIN)
CLEAN, CORRUPTED = TEST_SETS = "test", "corrupted"

Judge = Callable[..., Verdict]

STRONG, WEAK, CLEAR = 0.5, 0.3, 0.2
"""A tau above the first is strong: the paper's bold entries; assumptions: weak below the second,
and its sign is clear above the third."""

TIMES = 10
SAME = 0.2
"""Points of error; assumption: networks that differ by less have the same error."""

LARGER = 0.1
"""How much larger a |tau| is, of Fisher's z, that is clearly larger; an assumption."""

WITHIN = (
    "We observe that for ResNets, there is a strong correlation between sharpness and test error "
    "but only within each subgroup of training parameters such as augmentations and mixup."
)
NEITHER = "we find no empirical support to either the strong or weak hypothesis."
LEARNING_RATE = (
    "For both ResNets and ViTs, we observe a significant negative correlation, especially within "
    "each subgroup defined by the same values of augment × mixup."
)
NONE_POSITIVE = (
    "Overall, we conclude that none of the considered sharpness definitions or radii correlates "
    "positively with generalization nor that low sharpness implies good performance of the model."
)


def claim(
    text: str,
    key: str,
    judge: Judge,
    only: Mapping[str, str] = MappingProxyType({}),
    source: str = "Sec. 5.1",
    **about: Any,
) -> Claim:
    """A claim about one kind of networks, whose verdict has their numbers.

    judge: of the networks that fit, and of a threshold.  only: as for `Pool.of`.
    """

    def verdict(e: Evidence, *threshold: float) -> Verdict:
        pool = Pool.of(e, key, FITTED, GROUPS, only)
        return judge(pool, *threshold).reporting(*pool.counts())

    return Claim(text, source, verdict, **about)


def of_each(key: str, text: str, judge: Judge, **about: Any) -> FigureClaims:
    """A claim about ResNets, and the same about SimpleViTs.  key: of the first one."""
    return {
        key: claim(f"ResNets: {text}", RESNETS, judge, **about),
        f"{key}-vit": claim(f"SimpleViTs: {text}", VITS, judge, **about),
    }


def of_groups(figure: str, key: str, text: str, judge: Judge, **about: Any) -> FigureClaims:
    """A claim about groups of ResNets, and the same about those without augmentation."""
    repeated = {"repeats": f"andriushchenko2023_{figure}/{key}", **about}
    return {
        key: claim(f"ResNets: {text}", RESNETS, judge, **about),
        f"{key}-unaugmented": claim(
            f"ResNets without augmentation: {text}", RESNETS, judge, UNAUGMENTED, **repeated
        ),
    }


def of_each_and_within(key: str, text: str, judge: Judge, **about: Any) -> FigureClaims:
    """Claims of Figure 5 about ResNets and SimpleViTs, over all and within each group."""

    def of_group(group: Pool, *threshold: float) -> Verdict:
        return attempt(lambda: judge(group, *threshold), lambda why: Verdict("not run", (why,)))

    def within(pool: Pool, *threshold: float) -> Verdict:
        return every(of_group(group, *threshold) for group in pool.groups().values())

    repeated = {"repeats": f"andriushchenko2023_fig5/{key}", **about}
    inside = f"within each group: {text}"
    return {
        **of_each(key, text, judge, **about),
        **of_each(f"{key}-within", inside, within, **repeated),
        f"{key}-within-unaugmented": claim(
            f"ResNets without augmentation: {inside}", RESNETS, within, UNAUGMENTED, **repeated
        ),
    }


def strong_within_groups(pool: Pool, strong: float) -> Verdict:
    within = (tau > strong for x in SHOWN for tau in pool.taus(x, CLEAN).values())
    return every([*within, *(pool.tau(x, CLEAN).within(strong) for x in SHOWN)])


def signs_differ(pool: Pool) -> Verdict:
    return (pool.tau(NORMALIZED, CLEAN) > 0) & (pool.tau(PLAIN, CLEAN) < 0)


def same_error(pool: Pool, points: float) -> Verdict:
    """For either kind of logits, the largest ratio of the sharpness of two such networks."""
    return every(_same_error(pool, x, points) for x in SHOWN)


def _same_error(pool: Pool, x: Sharpness, points: float) -> Verdict:
    name, error = (pool.column(each)[0] for each in (x, CLEAN))
    frame = pool.columns(x, CLEAN).dropna()
    enough(len(frame), pool.key)
    sharpness, errors = (frame[each].to_numpy() for each in (name, error))
    one, other = np.nonzero(np.triu(np.abs(errors[:, None] - errors) < points, 1))
    if not len(one):
        raise NotThere(f"no two networks of {pool.key} have errors within {points:g} points")
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.maximum(*sharpness[[one, other]]) / np.minimum(*sharpness[[one, other]])
    largest = float(np.nanmax(ratios))
    quantity = f"largest ratio of {name} for errors within {points:g} points"
    return pool.fact(quantity, largest, largest >= TIMES)


def flattest_is_not_best(pool: Pool) -> Verdict:
    """In points of error, for either kind of logits."""
    parts = []
    for x in SHOWN:
        name, error = (pool.column(each)[0] for each in (x, CLEAN))
        frame = pool.columns(x, CLEAN).dropna()
        enough(len(frame), pool.key)
        errors = frame[error].to_numpy()
        behind = float(errors[frame[name].to_numpy().argmin()] - errors.min())
        text = f"{error} of the network with the lowest {name} - smallest error"
        parts.append(pool.fact(text, behind, behind > 0))
    return some(parts)


def weaker_elsewhere(pool: Pool, larger: float) -> Verdict:
    """On Fisher's z, with the signs that both taus have."""
    parts = []
    for x in SHOWN:
        inside, outside = (pool.tau(x, test_set) for test_set in TEST_SETS)
        sizes = (-tau if tau.point < 0 else tau for tau in (outside, inside))
        parts.append(operator.sub(*sizes) < larger)
    return every(parts)


def not_strong(pool: Pool, strong: float) -> Verdict:
    return every(pool.tau(x, test_set) < strong for x in SHOWN for test_set in TEST_SETS)


def not_weak(pool: Pool) -> Verdict:
    return every(pool.flattest(x, CLEAN) > 0 for x in SHOWN)


def falls_with_the_rate(pool: Pool) -> Verdict:
    return every(pool.tau(x, "lr") < 0 for x in SHOWN)


def falls_faster_within(pool: Pool) -> Verdict:
    return every(difference < 0 for x in SHOWN for difference in pool.beside_all(x, "lr"))


FIG5: FigureClaims = {
    **of_groups(
        "fig5",
        "c1",
        f"tau(sharpness, error) > {STRONG} within each group, and < {STRONG} in size over all",
        strong_within_groups,
        quote=WITHIN,
        threshold=STRONG,
    ),
    "c2": claim(
        "ResNets: tau(sharpness, error) > 0 with normalized logits, and < 0 without",
        RESNETS,
        signs_differ,
        quote="Importantly, sharpness does not correctly capture generalization between different "
        "subgroups leading to low positive or negative correlation (0.30 and −0.36).",
    ),
    "c3": claim(
        f"SimpleViTs: tau(sharpness without normalized logits, error) < -{WEAK}",
        VITS,
        lambda pool, weak: pool.tau(PLAIN, CLEAN) < -weak,
        quote="For ViTs, we do not observe strong positive correlation even within each subgroup "
        "(in fact, without logit normalization the correlation is noticeably negative −0.68)",
        threshold=WEAK,
    ),
    "c4": claim(
        f"SimpleViTs, either kind of logits: some network is {TIMES} times sharper than another "
        f"one within {SAME} points",
        VITS,
        same_error,
        quote="many models with an order of magnitude difference in sharpness can have the same "
        "test error.",
        threshold=SAME,
    ),
    **of_each_and_within(
        "c5",
        "for some kind of logits the network with the lowest sharpness is not the best",
        flattest_is_not_best,
        quote="we do not consistently observe that models with the lowest sharpness generalize "
        "best.",
    ),
    **of_each_and_within(
        "c6",
        f"|tau| with the error on corrupted images - |tau| with the test error < {LARGER} (z)",
        weaker_elsewhere,
        quote="For OOD generalization on common image corruptions [...] the trend is even less "
        "clear and the subgroups are mixed.",
        threshold=LARGER,
    ),
    **of_each_and_within(
        "c7",
        f"the strong hypothesis fails: tau(sharpness, error) < {STRONG}, on test images and "
        "corrupted ones",
        not_strong,
        quote=NEITHER,
        threshold=STRONG,
    ),
    **of_each_and_within(
        "c8",
        "the weak hypothesis fails: the flattest tenth, or five networks if these are more, has a "
        "mean error above the lower quartile",
        not_weak,
        quote=NEITHER,
    ),
}
FASTER = "tau(sharpness, learning rate) is lower within each group than over all"
FIG6: FigureClaims = {
    **of_each("c1", "tau(sharpness, learning rate) < 0", falls_with_the_rate, quote=LEARNING_RATE),
    **of_groups("fig6", "c2", FASTER, falls_faster_within, quote=LEARNING_RATE),
    "c2-vit": claim(f"SimpleViTs: {FASTER}", VITS, falls_faster_within, quote=LEARNING_RATE),
}


def cells(pool: Pool, printed: Taus) -> Iterator[tuple[float, Estimate]]:
    """Each printed tau, and ours."""
    for definition, columns in printed.items():
        for test_set, taus in zip(TEST_SETS, columns, strict=True):
            for index, tau in enumerate(taus):
                yield tau, pool.tau((definition, index), test_set)


def of_table(number: int, key: str, printed: Taus, limit: float, networks: str) -> FigureClaims:
    """Claims about a table: the signs that it prints, and its largest tau."""

    def same_signs(pool: Pool, least: float) -> Verdict:
        clear = ((theirs, ours) for theirs, ours in cells(pool, printed) if abs(theirs) > least)
        return every(ours > 0 if theirs > 0 else ours < 0 for theirs, ours in clear)

    def none_positive(pool: Pool, limit: float) -> Verdict:
        return every(ours < limit for _, ours in cells(pool, printed))

    return numbered(
        claim(
            f"every tau whose printed value is above {CLEAR} in size has its sign",
            key,
            same_signs,
            source=f"App. H.4, Table {number}",
            quote="A summary of correlation between sharpness and generalization for all "
            f"experiments on CIFAR-10 for {networks} trained from scratch.",
            threshold=CLEAR,
            admits=(OWN, REDUCED),
        ),
        claim(
            f"tau < {limit} for every definition and radius, on both test sets",
            key,
            none_positive,
            source=f"App. H, Table {number}",
            quote=NONE_POSITIVE,
            threshold=limit,
        ),
    )


TABLE_3 = of_table(3, RESNETS, TABLE3, 0.35, "ResNets-18")
TABLE_4 = of_table(4, VITS, TABLE4, 0.1, "ViTs")
