"""beyond: what the joint grids should show, declared before any of their networks was trained.

Each statement has a threshold from theory or from the papers, and says what would refute it. It is
judged on both grids; statements about losses on networks trained with cross-entropy, which is the
loss of the papers that they are from.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import combinations
from math import ceil
from typing import Any

import numpy as np

from flatlab.lab.claims import Claims
from flatlab.lab.tables.eligibility import (
    FEWEST_FOR_RANKS,
    NotEligible,
    require,
    require_ranked,
    too_few,
    unless_missing,
)
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond import _joint as joint
from flatlab.papers.beyond._bottleneck import BottleneckNetworks
from flatlab.papers.beyond._joint import JointNetworks
from flatlab.papers.beyond.measures import INVARIANT
from flatlab.papers.chen2026.readings import READINGS
from flatlab.stats.estimate import Estimate
from flatlab.stats.ranks import simultaneous
from flatlab.stats.trends import median_below
from flatlab.stats.verdict import Verdict, at_least, every, not_run

CLAIMS = Claims("beyond", READINGS)

BEFORE = "declared before the networks were trained"
POST_HOC = "post hoc: said after the networks were judged"
CROSS_ENTROPY, HALF_MSE = {"loss": ["cross-entropy"]}, {"loss": ["half-mse"]}
LOSSES: dict[str, dict[str, list[str]]] = {
    **{"half-mse": HALF_MSE, "cross-entropy": CROSS_ENTROPY, "pooled": {}}
}
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


def states(
    figure: str, text: str, quote: str, early: bool = False, source: str = BEFORE, **about: Any
) -> Callable[..., Any]:
    """The decorator that registers a statement about the networks of both grids that fit.

    figure, text, quote, source, about: see `Claims`.
    early: whether what it rests on when each network first fitted is reported, too.
    """

    def register(judge: Callable[..., Verdict]) -> None:
        @CLAIMS(figure, text, source, quote, **about)
        def _(e: ResultTables, *threshold: float, **choice: str) -> Verdict:
            parts = (partial(of_grid, e, grid, *threshold, **choice) for grid in joint.GRIDS)
            return every(unless_missing(part, not_run) for part in parts)

        def of_grid(e: ResultTables, grid: str, *threshold: float, **choice: str) -> Verdict:
            table = e.table(grid)
            networks = joint.networks(table)
            needs = "a rank correlation", FEWEST_FOR_RANKS
            require(networks.count, grid, "networks that fit", "", *needs)
            verdict = judge(networks, *threshold, **choice)
            if not early or "fitted" not in table.coords:
                return verdict
            then = partial(judge, joint.networks(table, first=True), *threshold, **choice)
            return verdict.reporting(*unless_missing(then, not_run).evidence)

    return register


def tau(
    networks: JointNetworks | BottleneckNetworks, estimand: str, x: str, y: str, *adjusting: str
) -> Estimate:
    """A rank correlation, partial if others are given, over the pairs of an estimand."""
    ranks = networks.ranks(x, y, *adjusting, pairs=networks.pairs(estimand))
    estimate = require_ranked(ranks.partial(x, y, *adjusting) if adjusting else ranks.tau(x, y))
    where = f"{networks.ESTIMANDS[estimand]}, {networks.context}"
    reason = f"{estimate.reason} ({where})" if estimate.reason else ""
    return replace(estimate, name=f"{estimate.name}; {where}", reason=reason)


def counted(verdict: Verdict, what: str, parts: Iterable[Verdict], outcome: str) -> Verdict:
    """A verdict with the evidence of those of its parts that have an outcome, and how many."""
    parts = list(parts)
    chosen = [part for part in parts if part.outcome == outcome]
    evidence = {entry["quantity"]: entry for part in chosen for entry in part.evidence}
    count = {"quantity": what, "value": len(chosen), "n": len(parts)}
    return replace(verdict, evidence=list(evidence.values())).reporting(count)


@states(
    "fig4",
    f"effective rank of all measures within settings < {RANK}, in both grids",
    "The measures of five papers are fewer than five independent quantities. Refuted by an "
    "effective rank of five or more.",
    threshold=RANK,
)
def _(networks: JointNetworks, limit: float) -> Verdict:
    names = networks.known(joint.PICTURED)
    exact = [name for name in names if name not in joint.DRAWN]

    def rank(estimand: str, of: list[str], what: str = "measures") -> Estimate:
        estimate = networks.ranks(*of, pairs=networks.pairs(estimand)).effective_rank()
        where = f"{joint.ESTIMANDS[estimand]}, {networks.context}"
        return estimate.labelled(f"{estimate.name} {what} {where}")

    others = rank(joint.SEEDS, exact, "measures without draws"), rank(joint.ALL, names)
    return (rank(joint.SEEDS, names) < limit).reporting(*(other.report() for other in others))


@states(
    "fig4",
    f"of the measures, {CHANGED:.0%} or more have a tau with the gap of the errors of one sign "
    "over all networks and of the other within settings, in both grids",
    "What correlates with the gap over all networks does not, or not with that sign, where the "
    "seed alone varies. Refuted if fewer than a quarter of the measures change sign.",
    threshold=CHANGED,
)
def _(networks: JointNetworks, share: float) -> Verdict:
    parts = []
    for name in networks.known(joint.PICTURED):
        a, b = (tau(networks, estimand, name, GAP) for estimand in (joint.ALL, joint.SEEDS))
        parts.append(((a > 0) & (b < 0)) | ((a < 0) & (b > 0)))
    verdict = at_least(ceil(min(share, 1) * len(parts)), parts)
    return counted(verdict, f"measures that change sign, {networks.context}", parts, "holds")


@states(
    "fig4",
    f"tau > {STRONG} within settings for each two of the four gaps, in both grids",
    "The four papers' generalization gaps say the same of networks that differ in their seed "
    "alone. Refuted by two gaps with a tau below a half.",
    threshold=STRONG,
)
def _(networks: JointNetworks, distance: float) -> Verdict:
    pairs = combinations(joint.GAPS, 2)
    return every(tau(networks, joint.SEEDS, *pair) > 1 - distance for pair in pairs)


@states(
    "fig4",
    f"tau > {1 - SAME} within settings: lambda_max of H and of its Gauss-Newton part; the trace of "
    "H and average standard sharpness; and for half-MSE sqrt(S) and the trace of H, the adaptive "
    "trace and average adaptive sharpness, in both grids",
    "What theory says is one number, exactly or to leading order, is one number under its "
    "different names. Refuted by any such two with a smaller tau.",
    threshold=SAME,
)
def _(networks: JointNetworks, distance: float) -> Verdict:
    squared = networks.where(**HALF_MSE)
    expected = (
        (networks, SHARPNESS, "gauss_newton_lambda_max"),
        (networks, "hessian_trace", "average-standard-l2"),
        (squared, S, "hessian_trace"),
        (squared, "elementwise_adaptive_trace", "average-adaptive-l2"),
    )
    verdict = every(tau(some, joint.SEEDS, x, y) > 1 - distance for some, x, y in expected)
    # Other draws of what is the same number to leading order: how well the draws order networks.
    drawn = (
        tau(networks, joint.SEEDS, "average-standard-l2", "average-standard-linf"),
        tau(squared, joint.SEEDS, "average-adaptive-l2", "average-adaptive-linf"),
    )
    alike = one_number(networks, 1 - distance)
    return verdict.reporting(*(rho.report() for rho in drawn), *alike)


def one_number(networks: JointNetworks, above: float) -> list[dict[str, Any]]:
    """All pairs of measures whose tau within settings is above a number."""
    names = networks.known(joint.PICTURED)
    ranks = networks.ranks(*names, pairs=networks.pairs(joint.SEEDS))
    value, low, high = ranks.matrix(simultaneous(len(names) * (len(names) - 1) // 2))
    return [
        {"quantity": f"tau({names[i]}, {names[j]}); {networks.context}"}
        | {"value": float(value[i, j]), "low": float(low[i, j]), "high": float(high[i, j])}
        | {"n": networks.count}
        for i, j in combinations(range(len(names)), 2)
        if value[i, j] > above
    ]


@states(
    "fig5",
    "where one factor alone varies: tau(sqrt(S), MLS) > 0 for rate and batch size (chen2026); with "
    "the gap of the losses tau(lambda_max(H)) > 0 for the rate and < 0 for weight decay, "
    "tau(softmaxed Jacobian norm) > 0 for the regularizer (macdonald2023), tau(normalized kappa) > "
    "0 for rate and batch size (petzka2021); tau(worst adaptive sharpness, rate) < 0 "
    "(andriushchenko2023), in both grids",
    "The papers disagree because they vary different things: on the same networks each finds its "
    "sign where its factor alone varies. Refuted by any sign that is the opposite.",
    early=True,
)
def _(networks: JointNetworks) -> Verdict:
    by_entropy = networks.where(**CROSS_ENTROPY)
    decayed = by_entropy.where(regularizer=["none", "weight decay"])
    kappa = "normalized_kappa_trace"
    return every(
        [
            *(tau(networks, factor, S, MLS) > 0 for factor in ("lr", "batch_size")),
            tau(by_entropy, "lr", SHARPNESS, LOSS_GAP) > 0,
            tau(decayed, "regularizer", SHARPNESS, LOSS_GAP) < 0,
            tau(by_entropy, "regularizer", JACOBIAN, LOSS_GAP) > 0,
            *(tau(by_entropy, factor, kappa, "loss_gap") > 0 for factor in ("lr", "batch_size")),
            tau(networks, "lr", "worst-adaptive-linf", "rate") < 0,
        ]
    )


@states(
    "fig5",
    "with the absolute gap of the losses, where rate, batch size or regularizer alone varies: "
    "tau(J | lambda_max(H)) > 0 and > tau(lambda_max(H) | J), J the softmaxed Jacobian norm, in "
    "both grids, for cross-entropy",
    "The Jacobian norm mediates between sharpness and the gap: given it, sharpness says less of "
    "the gap than it says given sharpness. Refuted by a factor for which it is the other way.",
    early=True,
)
def _(networks: JointNetworks) -> Verdict:
    parts, reported = [], []
    by_entropy = networks.where(**CROSS_ENTROPY)
    for factor in ("lr", "batch_size", "regularizer"):
        of_jacobian = tau(by_entropy, factor, JACOBIAN, LOSS_GAP, SHARPNESS)
        of_sharpness = tau(by_entropy, factor, SHARPNESS, LOSS_GAP, JACOBIAN)
        parts += [of_jacobian > 0, of_jacobian > of_sharpness]
        plain = (tau(by_entropy, factor, name, LOSS_GAP) for name in (JACOBIAN, SHARPNESS))
        reported += [other.report() for other in (of_sharpness, *plain)]
    return every(parts).reporting(*reported)


@states(
    "fig5",
    f"|tau with the gap of the errors, given training loss and output norm| < {STRONG} for every "
    "measure, over all networks of each loss, in both grids",
    "What a measure says of the gap beyond how small the training loss and how large the outputs "
    "are is weak. Refuted by a measure with a stronger partial correlation.",
    early=True,
    threshold=STRONG,
)
def _(networks: JointNetworks, limit: float) -> Verdict:
    adjusting = ("train_loss", "output_norm")
    parts = [
        tau(some, joint.ALL, name, GAP, *adjusting).within(limit)
        for some in (networks.where(**CROSS_ENTROPY), networks.where(**HALF_MSE))
        for name in networks.known(joint.PICTURED)
        if name not in adjusting
    ]
    what = f"partial correlations that are as strong, {networks.context}"
    return counted(every(parts), what, parts, "fails")


@states(
    "fig5",
    "tau(sqrt(S), each of MLS, NMLS) > 0 where the rate or the batch size alone varies, in both "
    "grids",
    "The sign that chen2026 says of networks that are trained with the squared loss, apart from "
    "those trained with cross-entropy, of which its Sec. 2 calls the sharpness unreliable.",
    early=True,
    source=POST_HOC,
    under=("loss",),
)
def _(networks: JointNetworks, loss: str) -> Verdict:
    of_loss = networks.where(**LOSSES[loss])
    factors = ("lr", "batch_size")
    return every(tau(of_loss, factor, S, y) > 0 for factor in factors for y in (MLS, "nmls"))


def changes(e: ResultTables, grid: str, limit: float) -> list[Verdict]:
    """Whether every measure that its paper calls invariant changes little in the median network."""
    table = e.table(grid)
    before, parts = joint.networks(table), []
    for kind in ("layers", "neurons"):
        if "transformation" not in table.dims or kind not in table["transformation"].values:
            raise NotEligible(f"{grid} has no networks with rescaled {kind}")
        after = joint.networks(table, transformation=kind)
        for name in (name for name, kinds in INVARIANT.items() if kind in kinds):
            values = joint.relative_change(name, before.column(name), after.column(name))
            values = values[~np.isnan(values)]
            what = f"median relative change of {name}, {kind} rescaled; {before.context}"
            known = len(values) >= FEWEST_FOR_RANKS
            why = too_few(f"{what}:", len(values), "networks", "it", FEWEST_FOR_RANKS)
            parts.append(median_below(what, values, limit) if known else not_run(why))
    return parts


@CLAIMS(
    "fig6",
    f"median relative change < {UNCHANGED} after random rescaling of layers or neurons, for every "
    "measure that its paper calls unchanged by it, in both grids",
    BEFORE,
    "What the papers call invariant keeps its value when layers or neurons are rescaled and the "
    "function stays the same. Refuted by any measure that changes.",
    threshold=UNCHANGED,
)
def _(e: ResultTables, limit: float) -> Verdict:
    of_grids = (partial(changes, e, grid, limit) for grid in joint.GRIDS)
    parts = (unless_missing(of_grid, lambda why: [not_run(why)]) for of_grid in of_grids)
    return every(verdict for verdicts in parts for verdict in verdicts)
