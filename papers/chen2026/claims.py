"""chen2026: what the paper says of its Figures 4, 5 and H.6 to H.9.

Sharpness in the claims is sqrt(S), as in the paper's figures; the MLS bound is D of Eq. 59 and
kappa is the relative flatness of the last layer. The bounds, A <= B <= C <= D, MLS and NMLS, are
theorems where no weights are shared, and proxies in convolutional networks: there the violations
are counted and not judged. Figures 2, 3, I.10, I.11 and J.12 are in `claims_trends`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np

from flatlab.core.schema import OWN
from flatlab.lab.tables.curves import Curves
from flatlab.lab.tables.eligibility import require_measured, unless_missing
from flatlab.lab.tables.networks import Networks, ResultTables
from flatlab.papers.chen2026 import claims_trends as trends
from flatlab.papers.chen2026.claims_stated import (
    ADAPTIVE,
    INVARIANT,
    LVR,
    MLS,
    NMLS,
    NVR,
    of_training,
    stated,
)
from flatlab.papers.chen2026.claims_trends import CLAIMS, MLP, PairPlot, TrendFigure, pairs
from flatlab.stats.estimate import Array
from flatlab.stats.verdict import Verdict, every, not_run, some, theorem, violations

WEAK, MUCH = 0.3, 0.5
"""Ours: "weak" means below 0.3, "too much" more than half."""

CHAIN = {f"{a} <= {b}": (f"bound_{a.lower()}", f"bound_{b.lower()}") for a, b in pairwise("ABCD")}
BOUNDED = {"MLS <= MLS bound": MLS, "NMLS <= NMLS bound": NMLS}
BY_NORM = {"bound_d": "d", "nmls_bound": "nmls"}
"""What these bounds are called in the quantity `bound_by_norm`."""

FOLLOWS = "The bound derived in Equation (12) correlates positively with NMLS in all experiments"
NEGATIVE = "can exhibit a negative correlation between both sides of the bound in some cases"
SAID = {
    "c2": "demonstrating consistent positive correlation between sharpness and compression metrics",
    "c3": "Although the bound in Equation (9) is loose, log volume correlates well with sharpness "
    "and MLS",
    "c4": "MLS has a higher correlation with sharpness than the local volumetric ratio",
    "c6": "Sharpness is positively correlated with the generalization gap",
    "c7": "The bound over NMLS, MLS, and NMLS [...] consistently correlates positively with the "
    "generalization gap",
    "c8": "sharpness consistently has a higher correlation with compression metrics than with the "
    "generalization gap",
    "c15": "all compression metrics, such as MLS, NMLS, and LVR [...] correlate well with "
    "sharpness in all of our experiments",
    "c11": "bound C is positively correlated with MLS",
    "c12": "MLS is still positively correlated with sharpness (Figure H.8)",
}
"""Of correlations, by the keys of their claims about Figure H.8."""


# Figures H.7 to H.9: pair plots -------------------------------------------------------------------
def weights_stay(line: Curves, limit: float) -> Verdict:
    """The norm of no layer changes much in training."""

    def change(layer: int) -> Array:
        norms = line.values(f"weight_norm[{layer}]")
        return norms[:, -1] / line.from_the_start(norms) - 1

    label = "|W_{}| at the end / at the start - 1"
    return every(
        line.over_runs(label.format(layer + 1), partial(change, layer)).within(limit)
        for layer in range(line.table.sizes["layer"])
    )


def pair_plot(plot: PairPlot) -> None:
    """What goes together with sharpness, and with the generalization gap, and how closely."""
    plot.above("NMLS", ["NMLS bound"], "App. H.2, 4", FOLLOWS)
    plot.above("sharpness", trends.COMPRESSION, "abstract, Sec. 4.2", SAID["c2"])
    plot.above("log volume", ["sharpness", "MLS"], "App. H.2, 2", SAID["c3"], trends.WELL)
    plot.closer("sharpness", ["MLS"], ["log volume"], "Sec. 3.2", SAID["c4"])

    @plot.says(
        "|rho(sharpness, dimension)| < rho(sharpness, each of MLS, log volume)",
        "Sec. 4.4",
        "a weaker correlation of sharpness and local dimensionality compared to other metrics "
        "such as MLS and volume",
        under=("volume",),
    )
    def _(e: ResultTables, **choice: str) -> Verdict:
        of_sharpness = pairs("sharpness", ["dimension", "MLS", "log volume"])
        weak, *strong = plot.rhos(e, *of_sharpness, **choice)
        return every((rho > weak) & (rho > -weak) for rho in strong)

    plot.above("sharpness", trends.COMPRESSION, "Sec. 4.2", SAID["c15"], trends.WELL, key="c15")
    plot.above("sharpness", ["gap"], "App. H.2, 3", SAID["c6"], key="c6")
    plot.above("gap", ["NMLS bound", "MLS", "NMLS"], "App. H.2, 1", SAID["c7"], key="c7")
    plot.closer("sharpness", trends.COMPRESSION, ["gap"], "Sec. 5", SAID["c8"], key="c8")
    relative_flatness(plot)
    TrendFigure(CLAIMS, plot.figure, plot.grid, trends.SETTINGS).each(
        f"the norm of the weights of each layer changes by less than {MUCH:.0%} in training, in "
        "each setting",
        "App. H.2, 3",
        "the network weights do not change too much during training",
        key="c16",
        threshold=MUCH,
    )(weights_stay)


def relative_flatness(plot: PairPlot) -> None:
    """That it does not go together with what it is compared with."""

    @plot.says(
        f"rho(kappa, gap) < {WEAK}: weak or negative",
        "App. H.2, 6",
        "Relative flatness [...] shows weak (even negative) correlation with the generalization "
        "gap",
        key="c9",
        threshold=WEAK,
        under=("gap",),
    )
    def _(e: ResultTables, weak: float, gap: str) -> Verdict:
        return plot.rhos(e, *pairs("kappa", ["gap"]), gap=gap)[0] < weak

    @plot.says(
        f"|rho(kappa, what it is compared with)| < {WEAK}: neither positive nor negative",
        "Sec. 3.4",
        "We also empirically evaluate the relative flatness [...], but no significant correlation "
        "is observed",
        key="c14",
        threshold=WEAK,
        under=("compared",),
    )
    def _(e: ResultTables, weak: float, compared: str) -> Verdict:
        words = trends.COMPRESSION if compared == "compression" else ("gap",)
        rhos = plot.rhos(e, *pairs("kappa", words), gap=compared.removeprefix("gap-"))
        return every(rho.within(weak) for rho in rhos)


PLOTS = {
    grid: PairPlot(CLAIMS, figure, grid)
    for figure, grid in (("figH8", MLP), ("figH7", trends.VGG), ("figH9", trends.LENET))
}
for plot in PLOTS.values():
    pair_plot(plot)


# Figures 4, H.6 and H.8: bounds -------------------------------------------------------------------
def theorems(pairs: dict[str, tuple[str, str]], values: Callable[[str], Array]) -> Verdict:
    """Inequalities that hold for every value.

    pairs: text -> the columns of the smaller and of the larger quantity.
    values: of a column: (runs, checkpoints).
    """
    return unless_missing(
        lambda: every(theorem(text, values(a), values(b)) for text, (a, b) in pairs.items()),
        not_run,
    )


def of_perceptrons(e: ResultTables, pairs: dict[str, tuple[str, str]]) -> Verdict:
    """Inequalities for every perceptron at every checkpoint."""
    return theorems(pairs, lambda name: e[MLP].series(name))


def of_all_networks(e: ResultTables) -> Verdict:
    """MLS and NMLS within their bounds: a theorem on the MLP grid, a number on the others."""
    verdict = of_perceptrons(e, BOUNDED)
    # reported, so that their tables are not evidence that was used
    others = [Networks.of(grid, table) for grid, table in e.tables.items() if grid != MLP]
    return verdict.reporting(*chain(*map(counted, others)))


def counted(networks: Networks) -> Iterator[dict[str, Any]]:
    """Networks that violate a bound at the end, for each norm of a kernel that was measured."""
    table = networks.data
    for text, (name, bound) in BOUNDED.items():
        limits = {"kernel": bound} if bound in table else {}
        if "bound_by_norm" in table:
            norms = map(str, table["norm"].values)
            limits = {norm: f"bound_by_norm[{norm}, {BY_NORM[bound]}]" for norm in norms}
        for norm, limit in limits.items() if name in table else ():
            of_norm = f"{text}, {norm} norm; {networks.key}"
            count = violations(of_norm, networks.values(name), networks.values(limit))
            if count["of"]:
                yield count


def looser(line: Curves, letters: str) -> Verdict:
    """Whether one distance is larger than another at the end: "DCBA", D - C than B - A."""
    d, c, b, a = [*letters]

    def of_runs() -> Array:
        names = (f"bound_{letter.lower()}" for letter in letters)
        larger, large, small, smaller = line.ends(*names, interpolating=False)
        return (larger - large) - (small - smaller)

    return line.over_runs(f"({d}-{c}) - ({b}-{a}) at the end", of_runs) > 0


mlps = PLOTS[MLP]
CENTRAL_PERCEPTRONS = TrendFigure(CLAIMS, "figH6", MLP, [trends.CENTRAL])
CENTRAL_PERCEPTRONS.each(
    "A <= B <= C <= D at every checkpoint of every run of lr 0.1, batch size 20",
    "caption of Fig. H.6",
    "We empirically verify that the inequalities [...] hold",
    nature="theorem",
)(lambda line: theorems(CHAIN, line.values))
CENTRAL_PERCEPTRONS.each(
    "D - C > B - A and D - C > C - B at the end",
    "caption of Fig. H.6",
    "the gap between C and D is large compared to the gap between A and B or B and C",
)(lambda line: looser(line, "DCBA") & looser(line, "DCCB"))
CLAIMS(
    "fig4",
    "rho(NMLS, NMLS bound) > 0 in each of the three grids",
    "Sec. 3.2, App. H.2, 4",
    FOLLOWS,
    repeats="chen2026_figH7/c1, chen2026_figH8/c1, chen2026_figH9/c1",
)(lambda e: every(plot.rhos(e, NMLS)[0] > 0 for plot in PLOTS.values()))
CLAIMS(
    "fig4",
    "rho(MLS, MLS bound) < 0 in at least one of the three grids",
    "Sec. 4.2, App. H.2, 5",
    f"the bound on the MLS [...] {NEGATIVE}",
    repeats="figH8/c10",
)(lambda e: some(plot.rhos(e, MLS)[0] < 0 for plot in PLOTS.values()))
CLAIMS(
    "fig4",
    "MLS <= MLS bound and NMLS <= NMLS bound for every perceptron (others are counted)",
    "Prop. 3.8, 3.10",
    "The maximum local sensitivity is upper bounded by a sharpness-related quantity",
    nature="theorem",
)(of_all_networks)


@CLAIMS(
    "fig4",
    "rho(MLS, MLS bound) < 0, and rho(kappa, what it is compared with) < 0, each in at least one "
    "of the three grids",
    "Sec. 4.2",
    f"the relative flatness [...] and the bound on the MLS [...] {NEGATIVE}",
    "c13",
    under=("compared",),
)
def _(e: ResultTables, compared: str) -> Verdict:
    (kappa,) = pairs("kappa", ["MLS" if compared == "compression" else "gap"])
    gap = compared.removeprefix("gap-")
    return every(
        some(plot.rhos(e, pair, gap=gap)[0] < 0 for plot in PLOTS.values()) for pair in (MLS, kappa)
    )


CLAIMS(
    "figH8",
    "rho(MLS, MLS bound) < 0",
    "App. H.2, 5",
    "MLS that only consider the first layer weights can sometimes negatively correlate with the "
    "bound derived in Equation (11)",
    "c10",
)(lambda e: mlps.rhos(e, MLS)[0] < 0)
mlps.above("MLS", ["bound C"], "caption of Fig. H.6", SAID["c11"], key="c11")
mlps.above("sharpness", ["MLS"], "Sec. 3.2", SAID["c12"], key="c12", repeats="figH8/c2")
CLAIMS(
    "figH8",
    "A <= B <= C <= D and NMLS <= NMLS bound, for every network",
    "caption of Fig. H.6, Prop. 3.10",
    "We empirically verify that the inequalities in Equation (59) hold",
    "theorem",
    nature="theorem",
)(lambda e: of_perceptrons(e, CHAIN) & of_perceptrons(e, {"NMLS <= NMLS bound": NMLS}))


# Figure 5: pretrained vision networks -------------------------------------------------------------
# They are about 181 networks that others trained on ImageNet, and no other evidence is admitted.
# Networks of a family resemble each other: families are the units that vary by chance.
ZOO = "vision-zoo"
FAR = 0.1
"""The share of all networks that lies beyond a corner."""
SHARPNESS, NORMALIZED = "adaptive_sharpness", "normalized_mls"

claimed = partial(CLAIMS, "fig5", admits=(OWN,))


def place(e: ResultTables, family: str, *where: tuple[str, float, bool]) -> Verdict:
    """The median of a family is above or below a quantile of all, in each of some quantities.

    where: quantity, quantile, and whether the median is above it. The networks are all that there
    are, none is drawn: the medians are compared as they are.
    """
    networks = e[ZOO]
    require_measured(ZOO, networks.count)
    names = [name for name in networks.levels("family") if name.startswith(family)]
    if not names:
        return not_run(f"there is no {family} among the networks")
    inside, entries, right = networks.where(family=names), [], []
    for name, share, above in where:
        median, limit = np.median(inside.column(name)), np.quantile(networks.column(name), share)
        text = f"median {name} of {family} - quantile {share:g} of all"
        sign = {"claim": "> 0" if above else "< 0"}
        entries.append({"quantity": text, "value": median - limit, "n": inside.count, **sign})
        right.append((median > limit) == above)
    return Verdict("holds" if all(right) else "fails", (), entries)


claimed(
    "rho(normalized MLS, log adaptive sharpness) > 0",
    "caption of Fig. 5, Sec. 4.3",
    "For most models, there is a positive correlation between Sharpness and MLS",
)(lambda e: e[ZOO].rho(NORMALIZED, f"log {SHARPNESS}") > 0)
claimed(
    "MobileViTs lie in the upper left: median sharpness > 90 % of all, median normalized MLS < the "
    "median of all",
    "caption of Fig. 5",
    "outlier clusters also exist, for MobileViT [...] models in the upper left corner",
    threshold=FAR,
)(lambda e, far: place(e, "mobilevit", (SHARPNESS, 1 - far, True), (NORMALIZED, 0.5, False)))
claimed(
    "FastViTs lie in the lower right: median sharpness < the median of all, median normalized MLS "
    "> 90 % of all",
    "caption of Fig. 5",
    "and two FastViT [...] models in the lower right corner",
    threshold=FAR,
)(lambda e, far: place(e, "fastvit", (SHARPNESS, 0.5, False), (NORMALIZED, 1 - far, True)))
claimed(
    f"|rho(MLS, log sharpness)| < {WEAK}: no correlation without normalization",
    "Sec. 4.3",
    "Interestingly, we did not observe this correlation between unnormalized metrics",
    threshold=WEAK,
)(lambda e, weak: e[ZOO].rho("mls", "log sharpness").within(weak))


# What the text states of the same networks -------------------------------------------------------
INEQUALITIES = {
    "weighted MLS <= matrix-normalized sharpness": INVARIANT[0][::-1],
    "input-invariant MLS <= adaptive sharpness": ("network_input_invariant_mls", ADAPTIVE),
    **{"NVR <= NVR bound": NVR, "LVR <= LVR bound": LVR},
}
for plot in PLOTS.values():
    stated(plot)
of_training()
CLAIMS(
    "figH8",
    f"{', '.join(INEQUALITIES)}, for every network; of input-invariant MLS the sum over layers, "
    "each over its width",
    "Prop. F.2, F.8, 3.4, 3.6",
    "elementwise-adaptive sharpness upper-bounds input-invariant MLS",
    "inequalities",
    nature="theorem",
)(lambda e: of_perceptrons(e, INEQUALITIES))
