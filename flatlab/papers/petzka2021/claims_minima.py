"""What petzka2021 says of its Figures 5 to 8: measures of minima and the generalization gap."""

import xarray as xr

from flatlab.claims.registry import Claims
from flatlab.claims.result_tables import ResultTables
from flatlab.stats.estimate import Estimate
from flatlab.stats.verdict import Verdict, every, theorem

MINIMA = Claims("petzka2021")

GRID, GAP = "minima-grid", "generalization_gap"
AFTER, RESCALED = "_after", "last-layer"
"""The ending of what is measured after the transformation of Figure 7, and its name."""

KAPPA, KAPPA_BEFORE_LAST = "normalized_kappa_trace[-1]", "normalized_kappa_trace[-2]"
TRACE, NORM = "hessian_trace_per_layer", "squared_norm_per_layer"
CHANGING = (TRACE, "pac_bayes", NORM)
"""The measures that a rescaling of layers changes."""

WORDS = {
    KAPPA: "kappa",
    KAPPA_BEFORE_LAST: "kappa_before_last",
    **{TRACE: "trace", TRACE + AFTER: "trace_after", NORM: "norm", NORM + AFTER: "norm_after"},
    **{"hessian_trace": "network_trace", "squared_norm": "network_norm"},
}
LAST_LAYER = (TRACE, "fisher_rao", "pac_bayes", NORM)
NETWORK = ("hessian_trace", "fisher_rao", "pac_bayes", "squared_norm")
"""What relative flatness is compared with. The paper does not say whether its trace and norm are of
the last layer or of all weights."""

DROP = 0.2
"""By how much Fisher's z of a correlation that declines substantially is smaller."""

SAME = 1e-4
"""Relative; what does not change by more is invariant."""

SAME_OUTPUT = 1e-6


def with_gap(e: ResultTables, *measures: str) -> list[Estimate]:
    """rho(measure, gap) of each measure, over the same networks."""
    networks = e[GRID].with_table(with_rescaled).called(**WORDS)
    return networks.rhos(*((measure, GAP) for measure in measures))


def with_rescaled(table: xr.Dataset) -> xr.Dataset:
    """The table with the changing measures, after the transformation, as further quantities."""
    rescaled = table[[*CHANGING]].sel(transformation=RESCALED, drop=True)
    return table.assign({name + AFTER: rescaled[name] for name in CHANGING})


def compared(others: tuple[str, ...], variant: str = "") -> None:
    """The claims of Figure 5.  others: the measures that relative flatness is compared with."""

    @MINIMA(
        "fig5",
        "rho(relative flatness, gap) > rho(each of the other four measures, gap)",
        "Sec. 6",
        "The results in Fig. 5 show that indeed relative flatness has higher correlation than all "
        "the competing measures.",
        variant=variant,
    )
    def _(e: ResultTables) -> Verdict:
        kappa, *rest = with_gap(e, KAPPA, *others)
        return every(kappa > rho for rho in rest).reporting(*(r.report() for r in (kappa, *rest)))

    @MINIMA(
        "fig5",
        "rho(Fisher-Rao norm, gap) < rho(each of the other four measures, gap)",
        "Sec. 6",
        "Of these measures, only the Fisher-Rao norm is reparameterization invariant but shows the "
        "weakest correlation in the experiment.",
        variant=variant,
    )
    def _(e: ResultTables) -> Verdict:
        rest = [name for name in (KAPPA, *others) if name != "fisher_rao"]
        fisher_rao, *rhos = with_gap(e, "fisher_rao", *rest)
        return every(fisher_rao < rho for rho in rhos)

    @MINIMA(
        "fig5",
        "rho(relative flatness, gap) > 0",
        "Sec. 6",
        "We then show that the novel relative flatness measure correlates strongly with "
        "generalization, also in the presence of reparameterizations.",
        variant=variant,
    )
    def _(e: ResultTables) -> Verdict:
        return with_gap(e, KAPPA)[0] > 0


compared(LAST_LAYER)
compared(NETWORK, "-network")
MINIMA.repeat("fig6", "fig5", "c1", "c2", "c3")


@MINIMA(
    "fig7",
    f"relative flatness and Fisher-Rao norm change by less than {SAME:g} of their values",
    "App. C.2",
    "The results in Fig. 7 show that both our proposed relative flatness and the Fisher-Rao norm "
    "are invariant to these reparameterization.",
    nature="theorem",
)
def _(e: ResultTables) -> Verdict:
    def invariant(name: str, word: str) -> Verdict:
        before, after = e[GRID].series(name), e[GRID].after(RESCALED).series(name)
        text = f"|change| <= {SAME:g} |value|; {word}"
        return theorem(text, abs(after - before), SAME * abs(before))

    return invariant(KAPPA, "kappa") & invariant("fisher_rao", "fisher_rao")


@MINIMA(
    "fig7",
    f"rho(measure, gap) falls by more than {DROP} (Fisher's z): trace, PAC-Bayes and squared norm",
    "App. C.2",
    "For all other measures, the correlation with generalization declines substantially.",
    threshold=DROP,
)
def _(e: ResultTables, drop: float) -> Verdict:
    rhos = with_gap(e, *CHANGING, *(name + AFTER for name in CHANGING))
    before, after = rhos[: len(CHANGING)], rhos[len(CHANGING) :]
    verdict = every(x - y > drop for x, y in zip(before, after, strict=True))
    return verdict.reporting(*(rho.report() for rho in rhos))


@MINIMA(
    "fig7",
    f"outputs on training and test samples change by at most {SAME_OUTPUT:g} of their size",
    "App. D.2",
    "Due to the positive homogeneity of the ReLU activation, this does not change the network "
    "function.",
    nature="check",
)
def _(e: ResultTables) -> Verdict:
    change = e[GRID].after(RESCALED).series("output_change")
    return theorem(f"largest relative change of outputs <= {SAME_OUTPUT:g}", change, SAME_OUTPUT)


@MINIMA(
    "fig8",
    "0 < rho(relative flatness of the layer before the last, gap) < rho(that of the last, gap)",
    "App. C.2",
    "It keeps the high correlation value, but due to less optimal feature space we observe smaller "
    "number, than in the previous calculation.",
)
def _(e: ResultTables) -> Verdict:
    before, last = with_gap(e, KAPPA_BEFORE_LAST, KAPPA)
    return (before > 0) & (before < last)
