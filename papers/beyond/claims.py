"""beyond: statements of our own, and of chen2026 about what none of its figures shows.

Here those about compression of inner layers, its bounds and neural collapse, judged on
`bottleneck-grid`: what chen2026 says in Sec. 3.5, for which it has no figure; then statements of
our own, each with a threshold and what would refute it, declared before the networks were trained.
Those about the joint grids are in `claims_joint`.
"""

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from flatlab.lab.claims import Claims
from flatlab.lab.tables.eligibility import FEWEST_FOR_RANKS, require
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond import _bottleneck as bottleneck
from flatlab.papers.beyond._bottleneck import NARROW, WIDE, BottleneckNetworks
from flatlab.papers.beyond._joint import ALL, SEEDS
from flatlab.papers.beyond.claims_dense import DENSE
from flatlab.papers.beyond.claims_depth import DEPTH
from flatlab.papers.beyond.claims_drawn import DRAWN
from flatlab.papers.beyond.claims_joint import BEFORE, S, tau
from flatlab.papers.beyond.claims_joint import CLAIMS as JOINT
from flatlab.papers.beyond.claims_logits import LOGITS
from flatlab.papers.beyond.claims_matched import MATCHED
from flatlab.papers.chen2026.readings import READINGS
from flatlab.stats.estimate import Array
from flatlab.stats.trends import median_below
from flatlab.stats.verdict import Verdict, every, theorem

PAPER = "chen2026 Sec. 3.5"
OUTPUT = "g"
"""||df/dx||_F^2: the local compression of the outputs."""
FROBENIUS, SENSITIVITY = "feature_sensitivity", "normalized_feature_mls"
COLLAPSE, SHARE = "collapse_within", "linear_share_within"
INNER = ("[1]", "[2]", "[-1]")
"""The inputs of the second, the third and the last layer."""

TIGHT = 3.0
"""The factor between a bound and what it bounds that is called tight."""
HALF = 0.5
"""The share of a spread from which on a linear map explains most of it; and the relative error of
an estimate up to which it says more than a guess.
"""
HELD_OUT, BY_FOLDS = "representativeness[-1, 0]", "representativeness_by_folds[-1, 0]"
"""In the penultimate features, at the first delta."""


def states(
    figure: str, text: str, source: str, quote: str, *, interpolating: bool = True, **about: Any
) -> Callable[..., Any]:
    """The decorator that registers a statement about the networks of the grid.

    figure, text, source, quote, about: see `Claims`.
    interpolating: whether it is about those alone that interpolate.
    """

    def register(judge: Callable[..., Verdict]) -> None:
        @JOINT(figure, text, source, quote, **about)
        def _(e: ResultTables, *threshold: float) -> Verdict:
            networks = bottleneck.networks(e.table(bottleneck.GRID))
            return judge(networks.that_interpolate() if interpolating else networks, *threshold)

    return register


ours = partial(states, source=BEFORE)


def median(
    networks: BottleneckNetworks, what: str, values: Array, limit: float, *beside: tuple[str, Array]
) -> Verdict:
    """The claim that the median over networks is below a number: of those that have a value.

    beside: names and values of quantities of which the medians by width and loss are reported.
    """
    finite = values[np.isfinite(values)]
    require(len(finite), networks.key, f"networks with {what}", "", "a median", FEWEST_FOR_RANKS)
    verdict = median_below(f"median {what}; {networks.context}", finite, limit)
    return verdict.reporting(*chain(*(networks.medians(*each) for each in beside)))


# ---- through training


@states(
    "fig7",
    "median over networks of NC1 of the penultimate features at the end, over that at the first "
    "checkpoint that interpolates < 1",
    PAPER,
    '"the within-class variance of the features in the penultimate layer vanishes at the terminal '
    'phase of training"',
)
def _(networks: BottleneckNetworks) -> Verdict:
    values, end = networks.since_interpolation(COLLAPSE), ("NC1(end)", networks.column(COLLAPSE))
    return median(networks, "NC1(end) / NC1(interpolation begins)", values, 1, end)


@ours(
    "fig7",
    "median over networks of the normalized MLS of the penultimate features at the end, over that "
    "at the first checkpoint that interpolates < 1",
    quote="Features go on being compressed locally once the training loss is small, as they go on "
    "to collapse. Refuted if the median network becomes more sensitive.",
)
def _(networks: BottleneckNetworks) -> Verdict:
    values = networks.since_interpolation(SENSITIVITY)
    return median(networks, "normalized MLS(end) / that when interpolation begins", values, 1)


# ---- bounds


@states(
    "fig8",
    "violations of Eq. 16 = 0: samples with ||dg/dx||_F above the bound, penultimate features g, "
    "in every network at every checkpoint",
    f"{PAPER}, Eq. 16",
    '"we can adapt the linear stability trick in Equation (5) to establish a relationship between '
    'their robustness and sharpness"',
    interpolating=False,
    nature="theorem",
)
def _(networks: BottleneckNetworks) -> Verdict:
    violated = networks.series("representation_violations")
    return theorem("||dg/dx||_F <= its bound", violated, np.zeros_like(violated))


@states(
    "fig8",
    "violations of Eq. 23 = 0: samples with ||dx^l/dx||_F above the bound, inputs x^l of the other "
    "inner layers, in every network at every checkpoint",
    f"{PAPER}, App. A",
    '"inequality (16) extends to any middle-layer representation, as detailed in Appendix A, so '
    'that very similar conclusions apply directly" (Eq. 23 has "=" for "<=")',
    interpolating=False,
    nature="theorem",
)
def _(networks: BottleneckNetworks) -> Verdict:
    def both(name: str) -> Array:
        return np.stack([networks.series(f"{name}{layer}") for layer in INNER[:2]], axis=-1)

    violated = both("representation_violations")
    verdict = theorem("||dx^l/dx||_F <= its bound", violated, np.zeros_like(violated))
    infinite = float(np.nanmean(both("representation_bound_infinite") > 0))
    what = "share of networks, checkpoints and layers with samples whose bound is infinite"
    return verdict.reporting({"quantity": what, "value": infinite, "n": len(violated)})


@states(
    "fig8",
    f"the bound of Eq. 16 is finite in every network with {NARROW} units d <= K outputs, and "
    f"infinite in every one with {WIDE}",
    PAPER,
    '"An effective bound on the robustness of penultimate-layer (or other internal-layer) features '
    "is obtained when d <= K, i.e., when the number of classes is at least as large as the feature "
    'dimension"',
    interpolating=False,
    nature="theorem",
)
def _(networks: BottleneckNetworks) -> Verdict:
    expected = np.isin(networks.data["units"].values, NARROW)[:, None]
    wrong = np.isfinite(networks.series("penultimate_bound")) != expected
    return theorem("finite where d <= K alone", wrong.astype(float), np.zeros(wrong.shape))


@ours(
    "fig8",
    f"median over networks with d <= K of the bound of Eq. 16 over the mean of ||dg/dx||_F < "
    f"{TIGHT:g}",
    quote="Where the bound is finite it says how compressed the features are, up to a factor of "
    "three. Refuted if it is looser in the median network.",
    threshold=TIGHT,
)
def _(networks: BottleneckNetworks, limit: float) -> Verdict:
    narrow = networks.where(units=NARROW)  # there W_L sees all of g
    values = narrow.column("penultimate_bound") / narrow.column("head_frobenius")
    what = "bound / mean ||dg/dx||_F"
    return median(narrow, what, values, limit, (what, values))


@ours(
    "fig8",
    "tau(bound of Eq. 16, mean ||dg/dx||_F) > 0 over networks of one width and loss, d <= K",
    quote="The bound orders networks as what it bounds does, although its factors ||W_1|| and "
    "sigma_min(W_L) differ between them. Refuted by the opposite sign.",
)
def _(networks: BottleneckNetworks) -> Verdict:
    narrow, pair = networks.where(units=NARROW), ("penultimate_bound", "head_frobenius")
    within = tau(narrow, SEEDS, *pair)
    return (tau(narrow, ALL, *pair) > 0).reporting(within.report())


@ours(
    "fig8",
    "median over networks with d > K of the share of ||dg/dx||_F^2 that the last layer sees, at "
    "the end over that before training < 1",
    quote="The share of the features' sensitivity that the outputs see falls in training: the head "
    "becomes blind to the directions in which features still vary. Refuted if it rises in the "
    "median network.",
)
def _(networks: BottleneckNetworks) -> Verdict:
    wide = networks.where(units=WIDE)
    shares, end = wide.series("head_share"), ("share(end)", wide.column("head_share"))
    return median(wide, "share(end) / share(start)", shares[:, -1] / shares[:, 0], 1, end)


# ---- across networks


states(
    "fig9",
    "tau(sqrt(S), mean ||dx^l/dx||_F^2) > 0 for the input of each inner layer, over networks of "
    "one width and loss",
    PAPER,
    '"the present sharpness-based approach can describe related properties at penultimate and '
    'intermediate network layers"',
)(lambda networks: every(tau(networks, ALL, S, f"{FROBENIUS}{layer}") > 0 for layer in INNER))
states(
    "fig9",
    "tau(normalized MLS, NC1) > 0 of penultimate features, over networks of one width and loss",
    PAPER,
    '"While our bounds are local (quantifying robustness to small input perturbations), a '
    "potential connection to neural collapse emerges when we consider samples from the same class "
    'as local perturbations around the class mean"',
)(lambda networks: tau(networks, ALL, SENSITIVITY, COLLAPSE) > 0)


@ours(
    "fig9",
    "tau(normalized MLS, NC1) > 0 of penultimate features, within settings",
    quote="Collapse follows local compression where the seed alone varies: the network whose "
    "features are more compressed around its samples has more collapsed classes. Refuted by the "
    "opposite sign.",
)
def _(networks: BottleneckNetworks) -> Verdict:
    other = tau(networks, SEEDS, FROBENIUS, COLLAPSE)
    return (tau(networks, SEEDS, SENSITIVITY, COLLAPSE) > 0).reporting(other.report())


@ours(
    "fig9",
    "tau(sqrt(S), ||df/dx||_F^2) > tau(sqrt(S), ||dg/dx||_F^2), outputs f and penultimate features "
    "g, over networks of one width and loss",
    quote="Sharpness orders networks by the compression of their penultimate features worse than "
    "by that of their outputs, since it sees features through the last layer alone. Refuted if it "
    "orders them better.",
)
def _(networks: BottleneckNetworks) -> Verdict:
    by_output, by_features = (tau(networks, ALL, S, name) for name in (OUTPUT, FROBENIUS))
    within = (tau(networks, SEEDS, S, name).report() for name in (OUTPUT, FROBENIUS))
    return (by_output > by_features).reporting(by_output.report(), by_features.report(), *within)


@ours(
    "fig9",
    f"of the spread within a class, the linear map at the mean input of the class explains more "
    f"than {HALF:g} at the input of the second layer, and less at the penultimate features, in the "
    "median network",
    quote="The spread within a class is linear in the input up to the first hidden layer, and no "
    "longer at the features that collapse: local compression does not by itself explain collapse. "
    "Refuted by a median share below a half at the one, or above it at the other.",
    threshold=HALF,
)
def _(networks: BottleneckNetworks, share: float) -> Verdict:
    shares = [networks.column(f"{SHARE}{layer}") for layer in INNER]
    names = [f"linear share, input of layer {which}" for which in ("2", "3", "4")]
    verdict = ~median(networks, names[0], shares[0], share)
    middle = {"quantity": f"median {names[1]}", "value": float(np.nanmedian(shares[1]))}
    middle["n"] = networks.count
    return (verdict & median(networks, names[2], shares[2], share)).reporting(middle)


# ---- representative data


@states(
    "fig9",
    "tau(representativeness by folds of the training data, that on held-out data) > 0, penultimate "
    "features, over networks of one width and loss",
    "petzka2021 Sec. 6",
    '"while representativeness cannot be computed without knowing the true data distribution, it '
    'can in practice be approximated"',
)
def _(networks: BottleneckNetworks) -> Verdict:
    within = tau(networks, SEEDS, BY_FOLDS, HELD_OUT)
    return (tau(networks, ALL, BY_FOLDS, HELD_OUT) > 0).reporting(within.report())


@ours(
    "fig9",
    "median over networks of |representativeness by folds - that on held-out data| over the latter "
    f"< {HALF:g}, penultimate features",
    quote="Folds of the training data say how large representativeness is, up to a half. Their "
    "network was fitted to all of them, so that the gap is not in what they say: refuted where it "
    "is most of the value on held-out data. Refuted by a larger error of the median network.",
    threshold=HALF,
)
def _(networks: BottleneckNetworks, limit: float) -> Verdict:
    held_out, folds = networks.column(HELD_OUT), networks.column(BY_FOLDS)
    both = ("on held-out data", held_out), ("by folds", folds)
    return median(networks, "|error| / value", np.abs(folds / held_out - 1), limit, *both)


ROBUSTNESS = "feature_robustness[-1, 0]"
"""Of the penultimate features, at the first delta."""


@states(
    "fig9",
    f"median over networks of feature robustness over its leading term < {1 + HALF:g}, penultimate "
    "features",
    "petzka2021 Thm. 5",
    '"feature robust on average over O_m for" epsilon = delta^2 kappa_Tr / (2m) + O(delta^3)',
    threshold=HALF,
)
def _(networks: BottleneckNetworks, above: float) -> Verdict:
    leading = networks.column("feature_robustness_leading[-1, 0]")
    values, what = networks.column(ROBUSTNESS) / leading, "feature robustness / leading term"
    return median(networks, what, values, 1 + above, (what, values))


@states(
    "fig9",
    f"median over networks of feature robustness over the gap of the losses > {HALF:g}, "
    "penultimate features",
    "petzka2021 Sec. 5",
    '"flatness of the empirical risk surface approximates the generalization gap"',
    threshold=HALF,
)
def _(networks: BottleneckNetworks, share: float) -> Verdict:
    values = networks.column(ROBUSTNESS) / networks.column("generalization_gap")
    what = "feature robustness / gap"
    return ~median(networks, what, values, share, (what, values))


CLAIMS = Claims("beyond", READINGS)
CLAIMS.update(JOINT | DENSE | DRAWN | DEPTH | LOGITS | MATCHED)
