"""macdonald2023, Figures 3, 4 and 12 to 19: learning rates and batch sizes.

Those on CIFAR-100 repeat the others on other data, so that data which stand in for CIFAR-100 decide
nothing about them. Claims about sharpness need eigenvalues that converged.
"""

from collections.abc import Sequence
from math import ceil

from flatlab.claims import Claim, Claims, Evidence, numbered, states
from flatlab.papers.macdonald2023._ends import (
    GAP,
    JACOBIAN,
    SHARPNESS,
    SHORT,
    WEAK,
    steps,
    tau_of,
    values_of,
)
from flatlab.papers.macdonald2023._steps import check_convergence
from flatlab.plan.schema import EVIDENCE, OWN, REDUCED
from flatlab.stats import Verdict, at_least, every

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


def admitted(grid: str) -> Sequence[str]:
    """The kinds of evidence that can decide a claim about the networks of a grid."""
    return EVIDENCE if grid == TEN else (OWN, REDUCED)


def falls_with_rate(e: Evidence, quantities: Sequence[str]) -> Verdict:
    """At most batch sizes, quantities of the ResNets fall with the learning rate."""
    check_convergence(e, TEN, "hessian")
    network = {"architecture": "resnet"}
    sizes, rates = (values_of(e, TEN, network, key) for key in ("batch_size", "lr"))

    def at(size: float) -> Verdict:
        where = {**network, "batch_size": size}
        return every(
            step < 0 for name in quantities for step in steps(e, TEN, where, "lr", rates, name)
        )

    return at_least(ceil(MOST * len(sizes)), map(at, sizes))


@states(
    "sharpness and gap fall with the learning rate, at 4 of 5 batch sizes",
    "caption of Fig. 3",
    quote=TYPICALLY,
)
def typically(e: Evidence) -> Verdict:
    return falls_with_rate(e, (SHARPNESS, GAP))


@states("tau(J, gap) > 0 over the networks", "caption of Fig. 3", quote=DOWNWARD)
def together(e: Evidence) -> Verdict:
    return tau_of(e, TEN, {"architecture": "resnet"}, JACOBIAN, GAP) > 0


@states(
    "J falls with the learning rate, at 4 of 5 batch sizes", "caption of Fig. 3", quote=DOWNWARD
)
def smaller_jacobians(e: Evidence) -> Verdict:
    return falls_with_rate(e, (JACOBIAN,))


@states(
    "tau(batch size, .) > 0 of sharpness, J and gap at each smaller learning rate",
    "caption of Fig. 4",
    quote=AT_LEAST,
)
def with_batch_size(e: Evidence) -> Verdict:
    check_convergence(e, TEN, "hessian")
    network = {"architecture": "resnet"}
    smaller = [rate for rate in values_of(e, TEN, network, "lr") if rate < LARGEST]
    return every(
        tau_of(e, TEN, {**network, "lr": rate}, "batch_size", name) > 0
        for rate in smaller
        for name in SHORT
    )


def reversal(grid: str, architecture: str, source: str, quote: str) -> Claim:
    """At the largest learning rate the gap is the smaller, the larger the Jacobian norm."""
    reversed_ = architecture == "resnet"

    def judge(e: Evidence, limit: float = 0.0) -> Verdict:
        where = {"architecture": architecture, "lr": LARGEST}
        found = tau_of(e, grid, where, JACOBIAN, GAP)
        return found < 0 if reversed_ else found > -limit

    said = "< 0" if reversed_ else f"> -{WEAK}"
    text = f"tau(J, gap) {said} at learning rate {LARGEST}"
    threshold = {} if reversed_ else {"threshold": WEAK}
    return states(text, source, quote=quote, admits=admitted(grid), **threshold)(judge)


def pooled(grid: str, architecture: str, repeats: str = "") -> list[Claim]:
    """c1 and c2 of a figure of App. B.2.  repeats: the figure of the same networks."""
    where = {"architecture": architecture}

    def about(key: str) -> dict[str, object]:
        return {"admits": admitted(grid), "repeats": f"{repeats}/{key}" if repeats else ""}

    @states(
        "tau < 0 of the learning rate with sharpness and gap, > 0 of the batch size with both",
        "App. B.2",
        quote=AS_A_WHOLE,
        **about("c1"),
    )
    def flatter(e: Evidence) -> Verdict:
        check_convergence(e, grid, "hessian")
        parts = []
        for name in (SHARPNESS, GAP):
            parts.append(tau_of(e, grid, where, "lr", name) < 0)
            parts.append(tau_of(e, grid, where, "batch_size", name) > 0)
        return every(parts)

    but = f", learning rate {LARGEST} left out" if architecture == "resnet" else ""

    @states(f"tau(J, gap) > 0{but}", "App. B.2", quote=WELL_CORRELATED, **about("c2"))
    def correlated(e: Evidence) -> Verdict:
        below = {"lr": LARGEST} if architecture == "resnet" else {}
        return tau_of(e, grid, where, JACOBIAN, GAP, below=below) > 0

    return [flatter, correlated]


def of_networks(grid: str, architecture: str, by_rate: str, by_size: str) -> dict[str, Claims]:
    """The claims of the two figures of the same networks, with the rate and the size on x."""
    again = pooled(grid, architecture, f"macdonald2023_{by_rate}")
    if (grid, architecture) != (TEN, "resnet"):  # where Figure 4 says it
        again.append(reversal(grid, architecture, "Sec. 6.2", AGNOSTIC))
    return {by_rate: numbered(*pooled(grid, architecture)), by_size: numbered(*again)}


RATES: dict[str, Claims] = {
    "fig3": numbered(typically, together, smaller_jacobians),
    "fig4": numbered(with_batch_size, reversal(TEN, "resnet", "caption of Fig. 4", INVERSE)),
    **of_networks(TEN, "resnet", "fig12", "fig16"),
    **of_networks(HUNDRED, "resnet", "fig13", "fig17"),
    **of_networks(TEN, "vgg", "fig14", "fig18"),
    **of_networks(HUNDRED, "vgg", "fig15", "fig19"),
}
