"""macdonald2023: what the paper says of learning rates, batch sizes and regularizers.

Claims on CIFAR-100 repeat the others on other data, so that data which stand in for CIFAR-100
decide nothing about them. Claims about curves through training, and about eight points, are in
`claims_training`.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from flatlab.core.schema import EVIDENCE, OWN, REDUCED
from flatlab.lab.tables.networks import Networks, ResultTables
from flatlab.lab.tables.selection import INTERPOLATES
from flatlab.papers.macdonald2023.claims_training import CLAIMS
from flatlab.stats.estimate import Estimate
from flatlab.stats.verdict import Verdict, at_least, every, some

JACOBIAN = "jacobian_norm"
"""At the end of training the paper's Jacobian is taken to be that of the logits."""

SHARPNESS, GAP = "hessian_lambda_max", "absolute_loss_gap"
STRATEGIES = ("label_smoothing", "mixup_alpha", "augmentation_probability", "sam_radius")
"""The strengths of the regularizers; without one it is zero."""

WORDS = {
    **{JACOBIAN: "J", SHARPNESS: "lambda_max", GAP: "gap"},
    **{name: name.replace("_", " ") for name in ("batch_size", *STRATEGIES)},
}

WEAK = 0.3
"""tau > -WEAK counts as not negative: without a margin, absence of correlation could never be
established, as for forty networks an interval reaches 0.2 to either side."""


def networks(e: ResultTables, grid: str, **where: Any) -> Networks:
    """The networks of a grid with these hyper-parameters, at the end of training."""
    return e[grid].where(**where).labelled(**WORDS)


def admitted(grid: str) -> Sequence[str]:
    """The fidelities that can decide a claim: of CIFAR-100, which repeat others, not stand-ins."""
    return (OWN, REDUCED) if "many-classes" in grid else EVIDENCE


# Figures 3, 4 and 12 to 19: learning rates and batch sizes ----------------------------------------
RATES, RATES_100 = "rates-grid", "rates-many-classes-grid"
LARGEST = 0.1
"""The largest learning rate."""

MOST = 0.8
"""The share of the batch sizes for which holds what is "typically" so: 4 of 5."""

AS_A_WHOLE = (
    "[...] on the whole, the claim that smaller batch sizes and larger learning rates lead to "
    "flatter minima and better generalisation is supported by our experiments"
)
WELL_CORRELATED = (
    "[...] with Jacobian norm in particular being well-correlated to generalisation gap as "
    "anticipated by Theorem 4.6 and Ansatz 3.1."
)
DOWNWARD = (
    "The downward pressure on sharpness and generalisation gap correlates with smaller Jacobian "
    "norms, as anticipated by Ansatz 3.1 and Theorem 4.6."
)
INVERSE = (
    "At the largest learning rate, the relationship between Jacobian norm and generalisation gap "
    "is the inverse of what is expected"
)
AGNOSTIC = (
    "The phenomenon appears to be data-agnostic (the same occurs with ResNet18 on CIFAR100, see "
    "Appendix B.2), but architecture-dependent (we do not observe this problem with VGG11 on "
    "either CIFAR10 or CIFAR100)."
)


def falls_with_rate(e: ResultTables, quantities: Sequence[str]) -> Verdict:
    """At most batch sizes, quantities of the ResNets fall with the learning rate."""
    resnets = networks(e, RATES, architecture="resnet")
    sizes, rates = resnets.by("batch_size").values(), resnets.levels("lr")
    falls = [
        every(step < 0 for name in quantities for step in at.steps(name, "lr", rates))
        for at in sizes
    ]
    return at_least(ceil(MOST * len(sizes)), falls)


CLAIMS(
    "fig3",
    "sharpness and gap fall with the learning rate, at 4 of 5 batch sizes",
    "caption of Fig. 3",
    "In line with conventional wisdom, larger learning rates typically have smaller sharpness and "
    "generalise better.",
)(partial(falls_with_rate, quantities=(SHARPNESS, GAP)))


CLAIMS("fig3", "tau(J, gap) > 0 over the networks", "caption of Fig. 3", DOWNWARD)(
    lambda e: networks(e, RATES, architecture="resnet").tau(JACOBIAN, GAP) > 0
)
CLAIMS(
    "fig3", "J falls with the learning rate, at 4 of 5 batch sizes", "caption of Fig. 3", DOWNWARD
)(partial(falls_with_rate, quantities=(JACOBIAN,)))


@CLAIMS(
    "fig4",
    "tau(batch size, .) > 0 of sharpness, J and gap at each smaller learning rate",
    "caption of Fig. 4",
    "At least for the smaller learning rates, increasing batch size typically increases sharpness, "
    "Jacobian norm and generalisation gap in line with Theorem 4.6.",
)
def _(e: ResultTables) -> Verdict:
    rates = networks(e, RATES, architecture="resnet").by("lr").items()
    return every(
        at.tau("batch_size", name) > 0
        for rate, at in rates
        if rate < LARGEST
        for name in (JACOBIAN, SHARPNESS, GAP)
    )


def reversal(figure: str, grid: str, architecture: str, source: str, quote: str) -> None:
    """At the largest learning rate the gap of ResNets is the smaller, the larger the Jacobian."""
    reversed_ = architecture == "resnet"
    sign, threshold = ("< 0", None) if reversed_ else (f"> -{WEAK}", WEAK)
    claim = partial(CLAIMS, figure, admits=admitted(grid), threshold=threshold)

    @claim(f"tau(J, gap) {sign} at learning rate {LARGEST}", source, quote)
    def _(e: ResultTables, weak: float = 0.0) -> Verdict:
        tau = networks(e, grid, architecture=architecture, lr=LARGEST).tau(JACOBIAN, GAP)
        return tau < 0 if reversed_ else tau > -weak


def pooled(figure: str, grid: str, architecture: str) -> None:
    """The claims of App. B.2 about all networks of one architecture on one data set."""
    resnet = architecture == "resnet"
    claim = partial(CLAIMS, figure, source="App. B.2", admits=admitted(grid))
    but = f", learning rate {LARGEST} left out" if resnet else ""

    @claim(
        "tau < 0 of the learning rate with sharpness and gap, > 0 of the batch size with both",
        quote=AS_A_WHOLE,
    )
    def _(e: ResultTables) -> Verdict:
        at = networks(e, grid, architecture=architecture)
        pairs = ((at.tau("lr", q) < 0, at.tau("batch_size", q) > 0) for q in (SHARPNESS, GAP))
        return every(verdict for pair in pairs for verdict in pair)

    @claim(f"tau(J, gap) > 0{but}", quote=WELL_CORRELATED)
    def _(e: ResultTables) -> Verdict:
        at = networks(e, grid, architecture=architecture)
        return (at.below(lr=LARGEST) if resnet else at).tau(JACOBIAN, GAP) > 0


reversal("fig4", RATES, "resnet", "caption of Fig. 4", INVERSE)

for by_rate, by_size, grid, architecture in (
    ("fig12", "fig16", RATES, "resnet"),
    ("fig13", "fig17", RATES_100, "resnet"),
    ("fig14", "fig18", RATES, "vgg"),
    ("fig15", "fig19", RATES_100, "vgg"),
):
    pooled(by_rate, grid, architecture)
    CLAIMS.repeat(by_size, of=by_rate)
    if by_size != "fig16":  # where Figure 4 says it
        reversal(by_size, grid, architecture, "Sec. 6.2", AGNOSTIC)


# Figures 2, 5 and 20 to 27: weight decay and other regularizers -----------------------------------
DECAYS, REGULARIZERS, REGULARIZERS_100 = (
    "weight-decay-grid",
    "regularizers-grid",
    "regularizers-many-classes-grid",
)
GAUSS_NEWTON = "gauss_newton_lambda_max"
SAM = "sam_radius"

SIMILAR, ALMOST_ALWAYS = 0.1, 0.9
"""By how much of the Hessian's largest eigenvalue that of Gauss-Newton differs, at most, and in
which share of the networks, at least."""

NETWORKS: dict[str, tuple[str, dict[str, str]]] = {
    f"fig{first + number}": (grid, {"architecture": architecture, "normalization": norm})
    for first, grid in ((20, REGULARIZERS), (24, REGULARIZERS_100))
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


CLAIMS(
    "fig2",
    "at each learning rate some weight decay gives a smaller gap than none",
    "Sec. 6.1",
    BETTER,
)(lambda e: every(some(none.minus(at, GAP) > 0 for at in others) for none, others in decayed(e)))
CLAIMS(
    "fig2",
    "lambda_max(0) < lambda_max(wd*), wd* the weight decay with the smallest gap",
    "Sec. 6.1",
    BETTER,
)(lambda e: every(excess < 0 for excess in excess_over_best(e, SHARPNESS)))
CLAIMS("fig2", "J(0) > J(wd*)", "caption of Fig. 2", LARGE_WITHOUT)(
    lambda e: every(excess > 0 for excess in excess_over_best(e, JACOBIAN))
)
CLAIMS("fig2", "gap(0) > gap(wd*)", "caption of Fig. 2", LARGE_WITHOUT, repeats="fig2/c1")(
    lambda e: every(excess > 0 for excess in excess_over_best(e, GAP))
)


@CLAIMS(
    "fig2",
    f"without weight decay the training loss is below {INTERPOLATES}, and sharpness the smallest",
    "caption of Fig. 2",
    LARGE_WITHOUT,
)
def _(e: ResultTables) -> Verdict:
    def at_rate(none: Networks, others: list[Networks]) -> Verdict:
        label = f"training loss; {DECAYS}, lr {none.selection['lr']:g}, weight decay 0"
        loss = none.mean("train_loss").labelled(label)
        smallest = every(none.minus(at, SHARPNESS) < 0 for at in others)
        return (loss < INTERPOLATES) & smallest

    return every(at_rate(*at) for at in decayed(e))


def by_strength(
    e: ResultTables, grid: str, network: dict[str, str], strategy: str, name: str
) -> Estimate:
    """tau(strength, quantity) over the networks that have one regularizer alone, or none."""
    alone = {other: 0.0 for other in STRATEGIES if other != strategy}
    return networks(e, grid, **network, **alone).tau(strategy, name)


@CLAIMS(
    "fig5", "rho(J, gap) > rho(lambda_max, gap) over the networks", "caption of Fig. 5", MUCH_BETTER
)
def _(e: ResultTables) -> Verdict:
    ours, other = (
        e[REGULARIZERS]
        .where(**RESNET)
        .labelled(REGULARIZERS)
        .rhos((JACOBIAN, GAP), (SHARPNESS, GAP))
    )
    return ours > other


CLAIMS("fig5", "tau(strength, J) < 0 of each regularizer", "caption of Fig. 5", EFFECTIVE)(
    lambda e: every(by_strength(e, REGULARIZERS, RESNET, each, JACOBIAN) < 0 for each in STRATEGIES)
)
CLAIMS("fig5", "tau(SAM's radius, lambda_max) < 0", "Sec. 6.3", ONLY_SAM)(
    lambda e: by_strength(e, REGULARIZERS, RESNET, SAM, SHARPNESS) < 0
)


@CLAIMS(
    "fig5",
    f"tau(strength, lambda_max) > -{WEAK} of each other regularizer",
    "Sec. 6.3",
    ONLY_SAM,
    threshold=WEAK,
)
def _(e: ResultTables, weak: float) -> Verdict:
    others = (each for each in STRATEGIES if each != SAM)
    return every(by_strength(e, REGULARIZERS, RESNET, each, SHARPNESS) > -weak for each in others)


def extended(figure: str, grid: str, network: dict[str, str]) -> None:
    """The claims of one of the figures 20 to 27."""
    claim = partial(CLAIMS, figure, source="App. B.3", admits=admitted(grid))
    tau = partial(by_strength, grid=grid, network=network)

    claim("tau(J, gap) > 0 over the networks", quote=OFTEN_NOT)(
        lambda e: networks(e, grid, **network).tau(JACOBIAN, GAP) > 0
    )

    claim(f"|tau(lambda_max, gap)| < {WEAK} over the networks", quote=OFTEN_NOT, threshold=WEAK)(
        lambda e, weak: networks(e, grid, **network).tau(SHARPNESS, GAP).within(weak)
    )

    @claim(
        f"|lambda_max(G) - lambda_max(H)| < {SIMILAR} lambda_max(H) in {ALMOST_ALWAYS:.0%} of the "
        "networks",
        quote=ALIKE,
        threshold=SIMILAR,
    )
    def _(e: ResultTables, share: float) -> Verdict:
        name = f"share of networks whose eigenvalues differ by less than {share:g}; {grid}"
        own = networks(e, grid, **network)
        hessian, gauss = own.column(SHARPNESS), own.column(GAUSS_NEWTON)
        near = np.where(
            np.isfinite(hessian + gauss), np.abs(gauss - hessian) < share * np.abs(hessian), np.nan
        )
        return own.mean_of(name, near) > ALMOST_ALWAYS

    claim("tau(SAM's radius, .) < 0 of lambda_max and of J", quote=SMALLER)(
        lambda e: every(tau(e, strategy=SAM, name=name) < 0 for name in (SHARPNESS, JACOBIAN))
    )
    claim(
        f"of some regularizer tau(strength, J) < 0, but tau(strength, lambda_max) > -{WEAK}",
        quote=LARGE_WITH,
        threshold=WEAK,
    )(
        lambda e, weak: some(
            (tau(e, strategy=each, name=JACOBIAN) < 0)
            & (tau(e, strategy=each, name=SHARPNESS) > -weak)
            for each in STRATEGIES
        )
    )


for figure, (grid, network) in NETWORKS.items():
    extended(figure, grid, network)
