"""macdonald2023, Figures 3, 4 and 12 to 19: learning rates and batch sizes.

Those on CIFAR-100 repeat the others on other data, so that data which stand in for CIFAR-100 decide
nothing about them.
"""

from collections.abc import Sequence
from functools import partial
from math import ceil

from flatlab.lab.claims.registry import Claims
from flatlab.lab.claims.result_tables import ResultTables
from flatlab.papers.macdonald2023._networks import GAP, SHARPNESS, WEAK, admitted, networks
from flatlab.papers.macdonald2023._networks import LOGIT_JACOBIAN as JACOBIAN
from flatlab.stats.verdict import Verdict, at_least, every

RATES = Claims("macdonald2023")

TEN, HUNDRED = "rates-grid", "rates-many-classes-grid"
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
TYPICALLY = (
    "In line with conventional wisdom, larger learning rates typically have smaller sharpness and "
    "generalise better."
)
DOWNWARD = (
    "The downward pressure on sharpness and generalisation gap correlates with smaller Jacobian "
    "norms, as anticipated by Ansatz 3.1 and Theorem 4.6."
)
AT_LEAST = (
    "At least for the smaller learning rates, increasing batch size typically increases sharpness, "
    "Jacobian norm and generalisation gap in line with Theorem 4.6."
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
    resnets = networks(e, TEN, architecture="resnet")
    sizes, rates = resnets.by("batch_size").values(), resnets.levels("lr")
    falls = [
        every(step < 0 for name in quantities for step in at.steps(name, "lr", rates))
        for at in sizes
    ]
    return at_least(ceil(MOST * len(sizes)), falls)


RATES(
    "fig3",
    "sharpness and gap fall with the learning rate, at 4 of 5 batch sizes",
    "caption of Fig. 3",
    TYPICALLY,
)(partial(falls_with_rate, quantities=(SHARPNESS, GAP)))


@RATES("fig3", "tau(J, gap) > 0 over the networks", "caption of Fig. 3", DOWNWARD)
def _(e: ResultTables) -> Verdict:
    return networks(e, TEN, architecture="resnet").tau(JACOBIAN, GAP) > 0


RATES(
    "fig3", "J falls with the learning rate, at 4 of 5 batch sizes", "caption of Fig. 3", DOWNWARD
)(partial(falls_with_rate, quantities=(JACOBIAN,)))


@RATES(
    "fig4",
    "tau(batch size, .) > 0 of sharpness, J and gap at each smaller learning rate",
    "caption of Fig. 4",
    AT_LEAST,
)
def _(e: ResultTables) -> Verdict:
    rates = networks(e, TEN, architecture="resnet").by("lr").items()
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
    claim = partial(RATES, figure, admits=admitted(grid), threshold=threshold)

    @claim(f"tau(J, gap) {sign} at learning rate {LARGEST}", source, quote)
    def _(e: ResultTables, weak: float = 0.0) -> Verdict:
        tau = networks(e, grid, architecture=architecture, lr=LARGEST).tau(JACOBIAN, GAP)
        return tau < 0 if reversed_ else tau > -weak


def pooled(figure: str, grid: str, architecture: str) -> None:
    """The claims of App. B.2 about all networks of one architecture on one data set."""
    resnet = architecture == "resnet"
    claim = partial(RATES, figure, source="App. B.2", admits=admitted(grid))
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


reversal("fig4", TEN, "resnet", "caption of Fig. 4", INVERSE)

for by_rate, by_size, grid, architecture in (
    ("fig12", "fig16", TEN, "resnet"),
    ("fig13", "fig17", HUNDRED, "resnet"),
    ("fig14", "fig18", TEN, "vgg"),
    ("fig15", "fig19", HUNDRED, "vgg"),
):
    pooled(by_rate, grid, architecture)
    RATES.repeat(by_size, of=by_rate)
    if by_size != "fig16":  # where Figure 4 says it
        reversal(by_size, grid, architecture, "Sec. 6.2", AGNOSTIC)
