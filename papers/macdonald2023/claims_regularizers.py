"""macdonald2023, Figures 2, 5 and 20 to 27: weight decay and other regularizers.

Those on CIFAR-100 repeat the others on other data, so that data which stand in for CIFAR-100 decide
nothing about them.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from flatlab.lab.claims.registry import Claims
from flatlab.lab.claims.result_tables import ResultTables
from flatlab.lab.tables.eligibility import require
from flatlab.lab.tables.networks import Networks
from flatlab.lab.tables.selection import INTERPOLATES
from flatlab.papers.macdonald2023._networks import (
    GAP,
    SHARPNESS,
    STRATEGIES,
    WEAK,
    admitted,
    networks,
)
from flatlab.papers.macdonald2023._networks import LOGIT_JACOBIAN as JACOBIAN
from flatlab.stats.estimate import Estimate, over_seeds
from flatlab.stats.trends import mean
from flatlab.stats.verdict import Verdict, every, some

REGULARIZERS = Claims("macdonald2023")

DECAYS, TEN, HUNDRED = "weight-decay-grid", "regularizers-grid", "regularizers-many-classes-grid"
GAUSS_NEWTON = "gauss_newton_lambda_max"
SAM = "sam_radius"

SIMILAR, ALMOST_ALWAYS = 0.1, 0.9
"""By how much of the Hessian's largest eigenvalue that of Gauss-Newton differs, at most, and in
which share of the networks, at least."""

NETWORKS: dict[str, tuple[str, dict[str, str]]] = {
    f"fig{first + number}": (grid, {"architecture": architecture, "normalization": norm})
    for first, grid in ((20, TEN), (24, HUNDRED))
    for number, (architecture, norm) in enumerate(
        (a, n) for a in ("vgg", "resnet") for n in ("none", "batch")
    )
}
"""The grid and the networks of each of the figures 20 to 27."""

RESNET = NETWORKS["fig23"][1]

LARGE_WITHOUT = (
    "Without weight decay, SGD finds a solution with near-zero loss and vanishing sharpness, but "
    "for which Jacobian norm and generalisation gap are relatively large."
)
BETTER = (
    "It was observed in [23] that when training with the cross-entropy cost, networks trained with "
    "weight decay generalised better than those trained without, despite converging to sharper "
    "minima. We confirm this observation in Figure 2."
)
MUCH_BETTER = (
    "The norm of the input-output Jacobian is much better correlated with the generalisation gap "
    "than that of the Hessian"
)
EFFECTIVE = (
    "[...] all regularisation strategies were effective in controlling the Jacobian norm without "
    "necessarily controlling the sharpness."
)
ONLY_SAM = (
    "We find that while Jacobian norm is regularised across all techniques, only in SAM is "
    "sharpness regularised."
)
OFTEN_NOT = (
    "In all cases, the model Jacobian is correlated with the generalisation gap, whereas the "
    "Hessian is often uncorrelated."
)
ALIKE = (
    "Moreover, the norm of the Gauss-Newton matrix is (almost) always very similar to that of "
    "Hessian, in line with previous empirical observation"
)
SMALLER = (
    "[...] forcing the Hessian to be sufficiently small likewise appears to force the Jacobian to "
    "be smaller (see the SAM plots)"
)
LARGE_WITH = (
    "[...] the Hessian is also influenced by other factors and can be large even without the "
    "Jacobian being large (see other plots)."
)


def decayed(e: ResultTables) -> Iterator[tuple[Networks, list[Networks]]]:
    """At each learning rate the networks without weight decay, and those with each."""
    for at in networks(e, DECAYS).by("lr").values():
        by_decay = at.by("weight_decay").items()
        yield at.where(weight_decay=0.0), [some for decay, some in by_decay if decay > 0]


def excess_over_best(e: ResultTables, name: str) -> Iterator[Estimate]:
    """How much larger a quantity is without weight decay than with the one of the smallest gap."""
    for none, others in decayed(e):
        yield none.minus(min(others, key=lambda at: float(at.seeds(GAP).mean())), name)


@REGULARIZERS(
    "fig2",
    "at each learning rate some weight decay gives a smaller gap than none",
    "Sec. 6.1",
    BETTER,
)
def _(e: ResultTables) -> Verdict:
    return every(some(none.minus(at, GAP) > 0 for at in others) for none, others in decayed(e))


@REGULARIZERS(
    "fig2",
    "lambda_max(0) < lambda_max(wd*), wd* the weight decay with the smallest gap",
    "Sec. 6.1",
    BETTER,
)
def _(e: ResultTables) -> Verdict:
    return every(excess < 0 for excess in excess_over_best(e, SHARPNESS))


@REGULARIZERS("fig2", "J(0) > J(wd*)", "caption of Fig. 2", LARGE_WITHOUT)
def _(e: ResultTables) -> Verdict:
    return every(excess > 0 for excess in excess_over_best(e, JACOBIAN))


@REGULARIZERS("fig2", "gap(0) > gap(wd*)", "caption of Fig. 2", LARGE_WITHOUT, repeats="fig2/c1")
def _(e: ResultTables) -> Verdict:
    return every(excess > 0 for excess in excess_over_best(e, GAP))


@REGULARIZERS(
    "fig2",
    f"without weight decay the training loss is below {INTERPOLATES}, and sharpness the smallest",
    "caption of Fig. 2",
    LARGE_WITHOUT,
)
def _(e: ResultTables) -> Verdict:
    def at_rate(none: Networks, others: list[Networks]) -> Verdict:
        label = f"training loss; {DECAYS}, lr {none.selection['lr']:g}, weight decay 0"
        loss = none.mean("train_loss").called(label)
        smallest = every(none.minus(at, SHARPNESS) < 0 for at in others)
        return (loss < INTERPOLATES) & smallest

    return every(at_rate(*at) for at in decayed(e))


def by_strength(
    e: ResultTables, grid: str, network: dict[str, str], strategy: str, name: str
) -> Estimate:
    """tau(strength, quantity) over the networks that have one regularizer alone, or none."""
    alone = {other: 0.0 for other in STRATEGIES if other != strategy}
    return networks(e, grid, **network, **alone).tau(strategy, name)


@REGULARIZERS(
    "fig5", "rho(J, gap) > rho(lambda_max, gap) over the networks", "caption of Fig. 5", MUCH_BETTER
)
def _(e: ResultTables) -> Verdict:
    ours, other = e[TEN].where(**RESNET).called(TEN).rhos((JACOBIAN, GAP), (SHARPNESS, GAP))
    return ours > other


@REGULARIZERS("fig5", "tau(strength, J) < 0 of each regularizer", "caption of Fig. 5", EFFECTIVE)
def _(e: ResultTables) -> Verdict:
    return every(by_strength(e, TEN, RESNET, each, JACOBIAN) < 0 for each in STRATEGIES)


@REGULARIZERS("fig5", "tau(SAM's radius, lambda_max) < 0", "Sec. 6.3", ONLY_SAM)
def _(e: ResultTables) -> Verdict:
    return by_strength(e, TEN, RESNET, SAM, SHARPNESS) < 0


@REGULARIZERS(
    "fig5",
    f"tau(strength, lambda_max) > -{WEAK} of each other regularizer",
    "Sec. 6.3",
    ONLY_SAM,
    threshold=WEAK,
)
def _(e: ResultTables, weak: float) -> Verdict:
    others = (each for each in STRATEGIES if each != SAM)
    return every(by_strength(e, TEN, RESNET, each, SHARPNESS) > -weak for each in others)


def extended(figure: str, grid: str, network: dict[str, str]) -> None:
    """The claims of one of the figures 20 to 27."""
    claim = partial(REGULARIZERS, figure, source="App. B.3", admits=admitted(grid))
    tau = partial(by_strength, grid=grid, network=network)

    @claim("tau(J, gap) > 0 over the networks", quote=OFTEN_NOT)
    def _(e: ResultTables) -> Verdict:
        return networks(e, grid, **network).tau(JACOBIAN, GAP) > 0

    @claim("tau(J, gap) > tau(lambda_max, gap)", quote=OFTEN_NOT)
    def _(e: ResultTables) -> Verdict:
        jacobian, sharpness = networks(e, grid, **network).taus((JACOBIAN, GAP), (SHARPNESS, GAP))
        return jacobian > sharpness

    @claim(
        f"|lambda_max(G) - lambda_max(H)| < {SIMILAR} lambda_max(H) in {ALMOST_ALWAYS:.0%} of the "
        "networks",
        quote=ALIKE,
        threshold=SIMILAR,
    )
    def _(e: ResultTables, share: float) -> Verdict:
        hessian, gauss = (networks(e, grid, **network).column(q) for q in (SHARPNESS, GAUSS_NEWTON))
        finite = np.isfinite(hessian + gauss)
        require(int(finite.sum()), grid, "networks with both eigenvalues")
        near = (np.abs(gauss - hessian) < share * np.abs(hessian))[finite].astype(float)
        name = f"share of networks whose eigenvalues differ by less than {share:g}; {grid}"
        return over_seeds(name, mean, near) > ALMOST_ALWAYS

    @claim("tau(SAM's radius, .) < 0 of lambda_max and of J", quote=SMALLER)
    def _(e: ResultTables) -> Verdict:
        return every(tau(e, strategy=SAM, name=name) < 0 for name in (SHARPNESS, JACOBIAN))

    @claim(
        f"of some regularizer tau(strength, J) < 0, but tau(strength, lambda_max) > -{WEAK}",
        quote=LARGE_WITH,
        threshold=WEAK,
    )
    def _(e: ResultTables, weak: float) -> Verdict:
        return some(
            (tau(e, strategy=each, name=JACOBIAN) < 0)
            & (tau(e, strategy=each, name=SHARPNESS) > -weak)
            for each in STRATEGIES
        )


for figure, (grid, network) in NETWORKS.items():
    extended(figure, grid, network)
