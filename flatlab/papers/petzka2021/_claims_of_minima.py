"""What petzka2021 says of its Figures 5 to 8: measures of minima and the generalization gap."""

from dataclasses import replace

from flatlab.claims import Evidence, FigureClaims, numbered, states
from flatlab.papers.petzka2021._minima import AFTER, CHANGE_OF_OUTPUTS, GAP, GRID, SHOWN, named
from flatlab.stats import Estimate, Verdict, every, theorem

CHANGING = ("trace", "pac_bayes", "norm")
"""The measures that a rescaling of layers changes."""

DROP = 0.2
"""By how much Fisher's z of a correlation that declines substantially is smaller."""

SAME = 1e-4
"""Relative; what does not change by more is invariant."""

SAME_OUTPUT = 1e-6


def minima(e: Evidence) -> Evidence:
    """The evidence with each measure as a quantity of its own."""
    return Evidence({GRID: named(e.table(GRID))})


def with_gap(e: Evidence, *measures: str) -> list[Estimate]:
    """rho(measure, gap) of each measure, over the same networks."""
    pairs = [(measure, GAP) for measure in measures]
    return minima(e).rhos(GRID, *pairs, interpolating=False)


def compared(others: tuple[str, ...], reading: str = "", of: str = "") -> FigureClaims:
    """The claims of Figure 5.  others: the measures that relative flatness is compared with."""

    @states(
        "rho(relative flatness, gap) > rho(each of the other four measures, gap)",
        "Sec. 6",
        quote="The results in Fig. 5 show that indeed relative flatness has higher correlation "
        "than all the competing measures.",
    )
    def highest(e: Evidence) -> Verdict:
        kappa, *rest = with_gap(e, "kappa", *others)
        return every(kappa > rho for rho in rest).reporting(*(r.report() for r in (kappa, *rest)))

    @states(
        "rho(Fisher-Rao norm, gap) < rho(each of the other four measures, gap)",
        "Sec. 6",
        quote="Of these measures, only the Fisher-Rao norm is reparameterization invariant but "
        "shows the weakest correlation in the experiment.",
    )
    def weakest(e: Evidence) -> Verdict:
        rest = [name for name in ("kappa", *others) if name != "fisher_rao"]
        fisher_rao, *rhos = with_gap(e, "fisher_rao", *rest)
        return every(fisher_rao < rho for rho in rhos)

    @states(
        "rho(relative flatness, gap) > 0",
        "Sec. 6",
        quote="We then show that the novel relative flatness measure correlates strongly with "
        "generalization, also in the presence of reparameterizations.",
    )
    def positive(e: Evidence) -> Verdict:
        return with_gap(e, "kappa")[0] > 0

    return numbered(highest, weakest, positive, reading=reading, of=of)


@states(
    f"relative flatness and Fisher-Rao norm change by less than {SAME:g} of their values",
    "App. C.2",
    quote="The results in Fig. 7 show that both our proposed relative flatness and the Fisher-Rao "
    "norm are invariant to these reparameterization.",
    nature="theorem",
)
def invariant(e: Evidence) -> Verdict:
    runs = minima(e).runs(GRID)

    def of(name: str) -> Verdict:
        before, change = runs[name], abs(runs[name + AFTER] - runs[name])
        return theorem(f"|change| <= {SAME:g} |value|; {name}", change, SAME * abs(before))

    return every(map(of, ("kappa", "fisher_rao")))


@states(
    f"rho(measure, gap) falls by more than {DROP} (Fisher's z): trace, PAC-Bayes and squared norm",
    "App. C.2",
    quote="For all other measures, the correlation with generalization declines substantially.",
    threshold=DROP,
)
def declines(e: Evidence, drop: float) -> Verdict:
    rhos = with_gap(e, *CHANGING, *(name + AFTER for name in CHANGING))
    before, after = rhos[: len(CHANGING)], rhos[len(CHANGING) :]
    verdict = every(x - y > drop for x, y in zip(before, after, strict=True))
    return verdict.reporting(*(rho.report() for rho in rhos))


@states(
    f"outputs on training and test samples change by at most {SAME_OUTPUT:g} of their size",
    "App. D.2",
    quote="Due to the positive homogeneity of the ReLU activation, this does not change the "
    "network function.",
    nature="check",
)
def same_outputs(e: Evidence) -> Verdict:
    change = minima(e).runs(GRID)[CHANGE_OF_OUTPUTS]
    return theorem(f"largest relative change of outputs <= {SAME_OUTPUT:g}", change, SAME_OUTPUT)


@states(
    "0 < rho(relative flatness of the layer before the last, gap) < rho(that of the last, gap)",
    "App. C.2",
    quote="It keeps the high correlation value, but due to less optimal feature space we observe "
    "smaller number, than in the previous calculation.",
)
def smaller_before(e: Evidence) -> Verdict:
    before, last = with_gap(e, "kappa_before_last", "kappa")
    return (before > 0) & (before < last)


NETWORK = ("network_trace", "fisher_rao", "pac_bayes", "network_norm")
"""Trace and squared norm of all weights, where the paper does not say which it takes."""

FIG5 = compared(SHOWN[1:])
CLAIMS: dict[str, FigureClaims] = {
    "fig5": FIG5 | compared(NETWORK, "-network", "petzka2021_fig5"),
    "fig6": {key: replace(claim, repeats=f"petzka2021_fig5/{key}") for key, claim in FIG5.items()},
    "fig7": numbered(invariant, declines, same_outputs),
    "fig8": numbered(smaller_before),
}
