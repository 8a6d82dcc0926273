"""macdonald2023: what the paper says of learning rates, batch sizes and regularizers.

Claims on CIFAR-100 repeat the others on other data, so that data which stand in for CIFAR-100
decide nothing about them. Claims about curves through training, and about eight points, are in
`claims_training`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
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


def says(
    figure: str,
    grid: str,
    where: Mapping[str, Any],
    text: str,
    source: str,
    quote: str,
    **about: Any,
) -> Callable[[Callable[..., Verdict]], None]:
    """The decorator that registers a claim about the networks of a grid at the end of training.

    where: their hyper-parameters.  The judge is given the networks and the threshold, if any.
    """

    def register(judge: Callable[..., Verdict]) -> None:
        # claims about CIFAR-100 repeat others: stand-ins decide nothing about them
        admits = (OWN, REDUCED) if "many-classes" in grid else EVIDENCE

        @CLAIMS(figure, text, source, quote, admits=admits, **about)
        def _(e: ResultTables, *threshold: float) -> Verdict:
            return judge(e[grid].where(**where).labelled(**WORDS), *threshold)

    return register


# Figures 3, 4 and 12 to 19: learning rates and batch sizes ----------------------------------------
RATES, RATES_100 = "rates-grid", "rates-many-classes-grid"
LARGEST = 0.1
"""The largest learning rate."""

MOST = 0.8
"""The share of the batch sizes for which holds what is "typically" so: 4 of 5."""

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


RESNETS, VGGS = {"architecture": "resnet"}, {"architecture": "vgg"}


def falls_with_rate(resnets: Networks, *quantities: str) -> Verdict:
    """At most batch sizes, quantities fall with the learning rate."""
    sizes, rates = resnets.by("batch_size").values(), resnets.levels("lr")
    falls = [
        every(step < 0 for name in quantities for step in at.steps(name, "lr", rates))
        for at in sizes
    ]
    return at_least(ceil(MOST * len(sizes)), falls)


of_rates = partial(says, "fig3", RATES, RESNETS, source="caption of Fig. 3")
of_rates(
    "sharpness and gap fall with the learning rate, at 4 of 5 batch sizes",
    quote="In line with conventional wisdom, larger learning rates typically have smaller "
    "sharpness and generalise better.",
)(lambda resnets: falls_with_rate(resnets, SHARPNESS, GAP))
of_rates("tau(J, gap) > 0 over the networks", quote=DOWNWARD)(
    lambda resnets: resnets.tau(JACOBIAN, GAP) > 0
)
of_rates("J falls with the learning rate, at 4 of 5 batch sizes", quote=DOWNWARD)(
    lambda resnets: falls_with_rate(resnets, JACOBIAN)
)
says(
    "fig4",
    RATES,
    RESNETS,
    "tau(batch size, .) > 0 of sharpness, J and gap at each smaller learning rate",
    "caption of Fig. 4",
    "At least for the smaller learning rates, increasing batch size typically increases sharpness, "
    "Jacobian norm and generalisation gap in line with Theorem 4.6.",
)(
    lambda resnets: every(
        at.tau("batch_size", name) > 0
        for rate, at in resnets.by("lr").items()
        if rate < LARGEST
        for name in (JACOBIAN, SHARPNESS, GAP)
    )
)


def reversal(
    figure: str, grid: str, architecture: Mapping[str, str], source: str, quote: str
) -> None:
    """At the largest learning rate the gap of ResNets is the smaller, the larger the Jacobian."""
    at_largest = partial(says, figure, grid, {**architecture, "lr": LARGEST})
    claim = partial(at_largest, source=source, quote=quote)
    if architecture == RESNETS:
        claim(f"tau(J, gap) < 0 at learning rate {LARGEST}")(lambda at: at.tau(JACOBIAN, GAP) < 0)
    else:
        claim(f"tau(J, gap) > -{WEAK} at learning rate {LARGEST}", threshold=WEAK)(
            lambda at, weak: at.tau(JACOBIAN, GAP) > -weak
        )


def pooled(figure: str, grid: str, architecture: Mapping[str, str]) -> None:
    """The claims of App. B.2 about all networks of one architecture on one data set."""
    resnet = architecture == RESNETS
    claim = partial(says, figure, grid, architecture, source="App. B.2")
    claim(
        "tau < 0 of the learning rate with sharpness and gap, > 0 of the batch size with both",
        quote="[...] on the whole, the claim that smaller batch sizes and larger learning rates "
        "lead to flatter minima and better generalisation is supported by our experiments",
    )(
        lambda at: every(
            verdict
            for name in (SHARPNESS, GAP)
            for verdict in (at.tau("lr", name) < 0, at.tau("batch_size", name) > 0)
        )
    )
    but = f", learning rate {LARGEST} left out" if resnet else ""
    claim(
        f"tau(J, gap) > 0{but}",
        quote="[...] with Jacobian norm in particular being well-correlated to generalisation gap "
        "as anticipated by Theorem 4.6 and Ansatz 3.1.",
    )(lambda at: (at.below(lr=LARGEST) if resnet else at).tau(JACOBIAN, GAP) > 0)


reversal("fig4", RATES, RESNETS, "caption of Fig. 4", INVERSE)

for by_rate, by_size, grid, architecture in (
    ("fig12", "fig16", RATES, RESNETS),
    ("fig13", "fig17", RATES_100, RESNETS),
    ("fig14", "fig18", RATES, VGGS),
    ("fig15", "fig19", RATES_100, VGGS),
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
ONLY_SAM = (
    "We find that while Jacobian norm is regularised across all techniques, only in SAM is "
    "sharpness regularised."
)
OFTEN_NOT = (
    "In all cases, the model Jacobian is correlated with the generalisation gap, whereas the "
    "Hessian is often uncorrelated."
)


def decayed(e: ResultTables) -> Iterator[tuple[Networks, list[Networks]]]:
    """At each learning rate the networks without weight decay, and those with each."""
    for at in e[DECAYS].labelled(**WORDS).by("lr").values():
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


def by_strength(at: Networks, strategy: str, name: str) -> Estimate:
    """tau(strength, quantity) over the networks that have one regularizer alone, or none."""
    alone = {other: 0.0 for other in STRATEGIES if other != strategy}
    return at.where(**alone).tau(strategy, name)


of_strengths = partial(says, "fig5", REGULARIZERS, RESNET)


@of_strengths(
    "rho(J, gap) > rho(lambda_max, gap) over the networks",
    source="caption of Fig. 5",
    quote="The norm of the input-output Jacobian is much better correlated with the generalisation "
    "gap than that of the Hessian",
)
def _(resnets: Networks) -> Verdict:
    named = replace(resnets, words={}).labelled(REGULARIZERS)
    ours, other = named.rhos((JACOBIAN, GAP), (SHARPNESS, GAP))
    return ours > other


of_strengths(
    "tau(strength, J) < 0 of each regularizer",
    source="caption of Fig. 5",
    quote="[...] all regularisation strategies were effective in controlling the Jacobian norm "
    "without necessarily controlling the sharpness.",
)(lambda resnets: every(by_strength(resnets, each, JACOBIAN) < 0 for each in STRATEGIES))
of_strengths("tau(SAM's radius, lambda_max) < 0", source="Sec. 6.3", quote=ONLY_SAM)(
    lambda resnets: by_strength(resnets, SAM, SHARPNESS) < 0
)
of_strengths(
    f"tau(strength, lambda_max) > -{WEAK} of each other regularizer",
    source="Sec. 6.3",
    quote=ONLY_SAM,
    threshold=WEAK,
)(
    lambda resnets, weak: every(
        by_strength(resnets, each, SHARPNESS) > -weak for each in STRATEGIES if each != SAM
    )
)


def eigenvalues_are_alike(own: Networks, share: float) -> Verdict:
    """In almost all networks that of Gauss-Newton is near that of the Hessian."""
    name = f"share of networks whose eigenvalues differ by less than {share:g}; {own.key}"
    hessian, gauss = own.column(SHARPNESS), own.column(GAUSS_NEWTON)
    near = np.abs(gauss - hessian) < share * np.abs(hessian)
    known = np.isfinite(hessian + gauss)
    return own.mean_of(name, np.where(known, near, np.nan)) > ALMOST_ALWAYS


def extended(figure: str, grid: str, network: dict[str, str]) -> None:
    """The claims of one of the figures 20 to 27."""
    claim = partial(says, figure, grid, network, source="App. B.3")
    claim("tau(J, gap) > 0 over the networks", quote=OFTEN_NOT)(
        lambda at: at.tau(JACOBIAN, GAP) > 0
    )
    claim(f"|tau(lambda_max, gap)| < {WEAK} over the networks", quote=OFTEN_NOT, threshold=WEAK)(
        lambda at, weak: at.tau(SHARPNESS, GAP).within(weak)
    )
    claim(
        f"|lambda_max(G) - lambda_max(H)| < {SIMILAR} lambda_max(H) in {ALMOST_ALWAYS:.0%} of the "
        "networks",
        quote="Moreover, the norm of the Gauss-Newton matrix is (almost) always very similar to "
        "that of Hessian, in line with previous empirical observation",
        threshold=SIMILAR,
    )(eigenvalues_are_alike)
    claim(
        "tau(SAM's radius, .) < 0 of lambda_max and of J",
        quote="[...] forcing the Hessian to be sufficiently small likewise appears to force the "
        "Jacobian to be smaller (see the SAM plots)",
    )(lambda at: every(by_strength(at, SAM, name) < 0 for name in (SHARPNESS, JACOBIAN)))
    claim(
        f"of some regularizer tau(strength, J) < 0, but tau(strength, lambda_max) > -{WEAK}",
        quote="[...] the Hessian is also influenced by other factors and can be large even without "
        "the Jacobian being large (see other plots).",
        threshold=WEAK,
    )(
        lambda at, weak: some(
            (by_strength(at, each, JACOBIAN) < 0) & (by_strength(at, each, SHARPNESS) > -weak)
            for each in STRATEGIES
        )
    )


for figure, (grid, network) in NETWORKS.items():
    extended(figure, grid, network)
