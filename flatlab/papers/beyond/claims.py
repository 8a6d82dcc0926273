"""beyond: what the joint grids should show, declared before any of their networks was trained.

Each statement has a threshold from theory or from the papers, and says what would refute it. It is
judged on both grids; statements about losses on networks trained with cross-entropy, which is the
loss of the papers that they are from.
"""

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations
from math import ceil

import numpy as np

from flatlab.claims import Evidence, FigureClaims, Judge, numbered, states
from flatlab.claims.eligibility import FEWEST_FOR_RANKS, NotThere, enough_ranked
from flatlab.claims.evidence import attempt
from flatlab.papers.beyond import _joint as joint
from flatlab.papers.beyond._invariance import CLAIMED
from flatlab.papers.beyond._joint import Networks
from flatlab.stats import Estimate, Verdict, at_least, every, not_run
from flatlab.stats.ranks import simultaneous
from flatlab.stats.trends import median_below

BEFORE = "declared before the networks were trained"
CROSS_ENTROPY = {"loss": ["cross-entropy"]}
HALF_MSE = {"loss": ["half-mse"]}
S, MLS, SHARPNESS, JACOBIAN = "root_sharpness", "mls", "hessian_lambda_max", "softmax_jacobian_norm"
GAP, LOSS_GAP = "error_gap", "absolute_loss_gap"

RANK = 5
"""As many as papers."""
CHANGED = 0.25
"""The share of measures whose sign changes; half of them if the two signs were independent."""
STRONG = 0.5
"""andriushchenko2023, Tables 1 to 4: "|tau| > 0.5 suggesting a reasonably strong correlation"."""
SAME = 0.05
"""Quantities whose tau is closer to 1 than this are called one number."""
UNCHANGED = 0.01
"""The relative change of a measure that is called invariant, in the median network: rounding and
Auto-PGD leave less, and a factor of 1.1 on a layer changes what is not invariant by more."""


def of_each_grid(judge: Callable[..., Verdict], earlier: bool = False) -> Judge:
    """The verdict that a statement is true of the networks of both grids that fit.

    earlier: report also what it rests on when each network first fitted.
    """

    def of_grid(e: Evidence, grid: str, *threshold: float) -> Verdict:
        table = e.table(grid)
        chosen = joint.networks(table)
        if (count := len(chosen.about)) < FEWEST_FOR_RANKS:
            reason = f"{grid} has {count} networks that fit, a rank correlation needs"
            raise NotThere(f"{reason} {FEWEST_FOR_RANKS}")
        verdict = judge(chosen, *threshold)
        if not earlier or "fitted" not in table.coords:
            return verdict
        before = functools.partial(judge, joint.networks(table, first=True), *threshold)
        return verdict.reporting(*attempt(before, not_run).evidence)

    def verdict(e: Evidence, *threshold: float) -> Verdict:
        parts = (functools.partial(of_grid, e, grid, *threshold) for grid in joint.GRIDS)
        return every(attempt(part, not_run) for part in parts)

    return verdict


at_both_times = functools.partial(of_each_grid, earlier=True)


def tau(chosen: Networks, estimand: str, x: str, y: str, *given: str) -> Estimate:
    """A rank correlation, partial if others are given, over the pairs of an estimand."""
    ranks = chosen.ranks(estimand, (x, y, *given))
    found = enough_ranked(ranks.partial(x, y, *given) if given else ranks.tau(x, y))
    where = f"{joint.ESTIMANDS[estimand]}, {chosen.name}"
    reason = f"{found.reason} ({where})" if found.reason else ""
    return replace(found, name=f"{found.name}; {where}", reason=reason)


def counted(verdict: Verdict, what: str, parts: Iterable[Verdict], outcome: str) -> Verdict:
    """A verdict with the evidence of those of its parts that have an outcome, and how many."""
    parts = list(parts)
    chosen = [part for part in parts if part.outcome == outcome]
    evidence = {entry["quantity"]: entry for part in chosen for entry in part.evidence}
    count = {"quantity": what, "value": len(chosen), "n": len(parts)}
    return replace(verdict, evidence=list(evidence.values())).reporting(count)


@states(
    f"effective rank of all measures within settings < {RANK}, in both grids",
    BEFORE,
    quote="The measures of five papers are fewer than five independent quantities. Refuted by an "
    "effective rank of five or more.",
    threshold=RANK,
)
@of_each_grid
def few_quantities(chosen: Networks, limit: float) -> Verdict:
    names = chosen.there(joint.PICTURED)
    exact = [name for name in names if name not in joint.DRAWN]

    def rank(kind: str, of: list[str], what: str = "measures") -> Estimate:
        found = chosen.ranks(kind, of).effective_rank()
        where = f"{joint.ESTIMANDS[kind]}, {chosen.name}"
        return replace(found, name=f"{found.name} of {len(of)} {what} {where}")

    others = rank(joint.SEEDS, exact, "measures without draws"), rank(joint.ALL, names)
    return (rank(joint.SEEDS, names) < limit).reporting(*(each.report() for each in others))


@states(
    f"of the measures, {CHANGED:.0%} or more have a tau with the gap of the errors of one sign "
    "over all networks and of the other within settings, in both grids",
    BEFORE,
    quote="What correlates with the gap over all networks does not, or not with that sign, where "
    "the seed alone varies. Refuted if fewer than a quarter of the measures change sign.",
    threshold=CHANGED,
)
@of_each_grid
def signs_change(chosen: Networks, share: float) -> Verdict:
    names = chosen.there(joint.PICTURED)
    parts = []
    for name in names:
        a, b = (tau(chosen, estimand, name, GAP) for estimand in (joint.ALL, joint.SEEDS))
        parts.append(((a > 0) & (b < 0)) | ((a < 0) & (b > 0)))
    verdict = at_least(ceil(min(share, 1) * len(names)), parts)
    return counted(verdict, f"measures that change sign, {chosen.name}", parts, "holds")


@states(
    f"tau > {STRONG} within settings for each two of the four gaps, in both grids",
    BEFORE,
    quote="The four papers' generalization gaps say the same of networks that differ in their seed "
    "alone. Refuted by two gaps with a tau below a half.",
    threshold=STRONG,
)
@of_each_grid
def gaps_agree(chosen: Networks, distance: float) -> Verdict:
    pairs = combinations(joint.GAPS, 2)
    return every(tau(chosen, joint.SEEDS, *pair) > 1 - distance for pair in pairs)


@states(
    f"tau > {1 - SAME} within settings: lambda_max of H and of its Gauss-Newton part; the trace of "
    "H and average standard sharpness; and for half-MSE sqrt(S) and the trace of H, the adaptive "
    "trace and average adaptive sharpness, in both grids",
    BEFORE,
    quote="What theory says is one number, exactly or to leading order, is one number under its "
    "different names. Refuted by any such two with a smaller tau.",
    threshold=SAME,
)
@of_each_grid
def one_number(chosen: Networks, distance: float) -> Verdict:
    squared = chosen.where(**HALF_MSE)
    expected = (
        (chosen, SHARPNESS, "gauss_newton_lambda_max"),
        (chosen, "hessian_trace", "average-standard-l2"),
        (squared, S, "hessian_trace"),
        (squared, "elementwise_adaptive_trace", "average-adaptive-l2"),
    )
    verdict = every(tau(some, joint.SEEDS, x, y) > 1 - distance for some, x, y in expected)
    names = chosen.there(joint.PICTURED)
    value, low, high = chosen.ranks(joint.SEEDS, names).matrix(
        simultaneous(len(names) * (len(names) - 1) // 2)
    )
    found = [
        {"quantity": f"tau({names[i]}, {names[j]}); {chosen.name}", "value": float(value[i, j])}
        | {"low": float(low[i, j]), "high": float(high[i, j]), "n": len(chosen.about)}
        for i, j in combinations(range(len(names)), 2)
        if value[i, j] > 1 - distance
    ]
    # Other draws of what is the same number to leading order: how well the draws order networks.
    drawn = (
        tau(chosen, joint.SEEDS, "average-standard-l2", "average-standard-linf"),
        tau(squared, joint.SEEDS, "average-adaptive-l2", "average-adaptive-linf"),
    )
    return verdict.reporting(*(each.report() for each in drawn), *found)


@states(
    "where one factor alone varies: tau(sqrt(S), MLS) > 0 for rate and batch size (chen2026); with "
    "the gap of the losses tau(lambda_max(H)) > 0 for the rate and < 0 for weight decay, "
    "tau(softmaxed Jacobian norm) > 0 for the regularizer (macdonald2023), tau(normalized kappa) > "
    "0 for rate and batch size (petzka2021); tau(worst adaptive sharpness, rate) < 0 "
    "(andriushchenko2023), in both grids",
    BEFORE,
    quote="The papers disagree because they vary different things: on the same networks each finds "
    "its sign where its factor alone varies. Refuted by any sign that is the opposite.",
)
@at_both_times
def each_paper_is_right(chosen: Networks) -> Verdict:
    by_entropy = chosen.where(**CROSS_ENTROPY)
    decayed = by_entropy.where(regularizer=["none", "weight decay"])
    kappa = "normalized_kappa_trace"
    ranked = {**chosen.columns, "rate": chosen.about["lr"].to_numpy(float)}
    return every(
        [
            *(tau(chosen, factor, S, MLS) > 0 for factor in ("lr", "batch_size")),
            tau(by_entropy, "lr", SHARPNESS, LOSS_GAP) > 0,
            tau(decayed, "regularizer", SHARPNESS, LOSS_GAP) < 0,
            tau(by_entropy, "regularizer", JACOBIAN, LOSS_GAP) > 0,
            *(tau(by_entropy, factor, kappa, "loss_gap") > 0 for factor in ("lr", "batch_size")),
            tau(replace(chosen, columns=ranked), "lr", "worst-adaptive-linf", "rate") < 0,
        ]
    )


@states(
    "with the absolute gap of the losses, where rate, batch size or regularizer alone varies: "
    "tau(J | lambda_max(H)) > 0 and > tau(lambda_max(H) | J), J the softmaxed Jacobian norm, in "
    "both grids, for cross-entropy",
    BEFORE,
    quote="The Jacobian norm mediates between sharpness and the gap: given it, sharpness says less "
    "of the gap than it says given sharpness. Refuted by a factor for which it is the other way.",
)
@at_both_times
def jacobian_mediates(chosen: Networks) -> Verdict:
    parts, reported = [], []
    by_entropy = chosen.where(**CROSS_ENTROPY)
    for factor in ("lr", "batch_size", "regularizer"):
        of_jacobian = tau(by_entropy, factor, JACOBIAN, LOSS_GAP, SHARPNESS)
        of_sharpness = tau(by_entropy, factor, SHARPNESS, LOSS_GAP, JACOBIAN)
        parts += [of_jacobian > 0, of_jacobian > of_sharpness]
        plain = (tau(by_entropy, factor, name, LOSS_GAP) for name in (JACOBIAN, SHARPNESS))
        reported += [each.report() for each in (of_sharpness, *plain)]
    return every(parts).reporting(*reported)


@states(
    f"|tau with the gap of the errors, given training loss and output norm| < {STRONG} for every "
    "measure, over all networks of each loss, in both grids",
    BEFORE,
    quote="What a measure says of the gap beyond how small the training loss and how large the "
    "outputs are is weak. Refuted by a measure with a stronger partial correlation.",
    threshold=STRONG,
)
@at_both_times
def little_is_left(chosen: Networks, limit: float) -> Verdict:
    given = ("train_loss", "output_norm")
    parts = [
        tau(some, joint.ALL, name, GAP, *given).within(limit)
        for some in (chosen.where(**CROSS_ENTROPY), chosen.where(**HALF_MSE))
        for name in chosen.there(joint.PICTURED)
        if name not in given
    ]
    what = f"partial correlations that are as strong, {chosen.name}"
    return counted(every(parts), what, parts, "fails")


def keeps_its_value(e: Evidence, limit: float) -> Verdict:
    """Every measure that its paper calls invariant changes little in the median network."""
    parts = []
    for grid in joint.GRIDS:
        parts += attempt(functools.partial(_changes, e, grid, limit), lambda why: [not_run(why)])
    return every(parts)


def _changes(e: Evidence, grid: str, limit: float) -> list[Verdict]:
    table = e.table(grid)
    before, parts = joint.networks(table), []
    for kind in ("layers", "neurons"):
        if "transformation" not in table.dims or kind not in table["transformation"].values:
            raise NotThere(f"{grid} has no networks with rescaled {kind}")
        after = joint.networks(table, transformation=kind)
        for name in (name for name, kinds in CLAIMED.items() if kind in kinds):
            values = joint.relative_change(name, before.columns[name], after.columns[name])
            values = values[~np.isnan(values)]
            what = f"median relative change of {name}, {kind} rescaled; {before.name}"
            known = len(values) >= FEWEST_FOR_RANKS
            why = f"{what}: {len(values)} networks, it needs {FEWEST_FOR_RANKS}"
            parts.append(median_below(what, values, limit) if known else not_run(why))
    return parts


survives = states(
    f"median relative change < {UNCHANGED} after random rescaling of layers or neurons, for every "
    "measure that its paper calls unchanged by it, in both grids",
    BEFORE,
    quote="What the papers call invariant keeps its value when layers or neurons are rescaled and "
    "the function stays the same. Refuted by any measure that changes.",
    threshold=UNCHANGED,
)(keeps_its_value)

CLAIMS: dict[str, FigureClaims] = {
    "fig4": numbered(few_quantities, signs_change, gaps_agree, one_number),
    "fig5": numbered(each_paper_is_right, jacobian_mediates, little_is_left),
    "fig6": numbered(survives),
}
