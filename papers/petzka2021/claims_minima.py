"""What petzka2021 says of its Figures 5 to 8: measures of minima and the generalization gap."""

from functools import partial

import xarray as xr

from flatlab.lab.claims.registry import Claims
from flatlab.lab.claims.result_tables import ResultTables
from flatlab.lab.tables.columns import Column
from flatlab.papers.petzka2021.measures import AFTER, GAP, GRID, MEASURES, RESCALED
from flatlab.stats.estimate import Estimate
from flatlab.stats.verdict import Verdict, every, theorem

MINIMA = Claims("petzka2021")

CHANGING = ("trace", "pac_bayes", "norm")
"""The measures that a rescaling of layers changes."""

LAST_LAYER = ("trace", "fisher_rao", "pac_bayes", "norm")
NETWORK = ("network_trace", "fisher_rao", "pac_bayes", "network_norm")
"""What relative flatness is compared with. The paper does not say whether its trace and norm are of
the last layer or of all weights."""

DROP = 0.2
"""By how much Fisher's z of a correlation that declines substantially is smaller."""

SAME = 1e-4
"""Relative; what does not change by more is invariant."""

SAME_OUTPUT = 1e-6


def with_gap(e: ResultTables, *measures: str) -> list[Estimate]:
    """rho(measure, gap) of each measure, over the same networks."""
    networks = (
        e[GRID].with_table(with_rescaled).called(**{MEASURES[word]: word for word in MEASURES})
    )
    return networks.rhos(*((MEASURES.get(measure, measure), GAP) for measure in measures))


def with_rescaled(table: xr.Dataset) -> xr.Dataset:
    """The table with the changing measures, after the transformation, as further quantities."""
    columns = {measure + AFTER: Column.of(MEASURES[measure]).quantity for measure in CHANGING}
    rescaled = table.sel(transformation=RESCALED, drop=True)
    return table.assign({measure: rescaled[name] for measure, name in columns.items()})


def compared(others: tuple[str, ...], variant: str = "") -> None:
    """The claims of Figure 5.  others: the measures that relative flatness is compared with."""
    claim = partial(MINIMA, "fig5", variant=variant)

    @claim(
        "rho(relative flatness, gap) > rho(each of the other four measures, gap)",
        "Sec. 6",
        "The results in Fig. 5 show that indeed relative flatness has higher correlation than all "
        "the competing measures.",
    )
    def _(e: ResultTables) -> Verdict:
        kappa, *rest = with_gap(e, "kappa", *others)
        return every(kappa > rho for rho in rest).reporting(*(r.report() for r in (kappa, *rest)))

    @claim(
        "rho(Fisher-Rao norm, gap) < rho(each of the other four measures, gap)",
        "Sec. 6",
        "Of these measures, only the Fisher-Rao norm is reparameterization invariant but shows the "
        "weakest correlation in the experiment.",
    )
    def _(e: ResultTables) -> Verdict:
        rest = [name for name in ("kappa", *others) if name != "fisher_rao"]
        fisher_rao, *rhos = with_gap(e, "fisher_rao", *rest)
        return every(fisher_rao < rho for rho in rhos)

    @claim(
        "rho(relative flatness, gap) > 0",
        "Sec. 6",
        "We then show that the novel relative flatness measure correlates strongly with "
        "generalization, also in the presence of reparameterizations.",
    )
    def _(e: ResultTables) -> Verdict:
        return with_gap(e, "kappa")[0] > 0


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
    def invariant(measure: str) -> Verdict:
        at = e[GRID], e[GRID].after(RESCALED)
        before, after = (networks.series(MEASURES[measure]) for networks in at)
        text = f"|change| <= {SAME:g} |value|; {measure}"
        return theorem(text, abs(after - before), SAME * abs(before))

    return invariant("kappa") & invariant("fisher_rao")


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
    before, last = with_gap(e, "kappa_before_last", "kappa")
    return (before > 0) & (before < last)
