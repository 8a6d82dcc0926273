"""petzka2021: what the paper says of its figures.

kappa is the relative flatness of the last layer. The claims of Figure 3 are judged in four
variants: on features as drawn; with the ending -inverted, on features that come through an inverted
network, the paper's own step; with -reversed, as drawn, but with the order of class separations of
the authors' public code; with -code, on everything as in that code. Those of Figure 4 are judged on
the experiment that the paper describes and, with -code, on the code. `readings` has what Figures 5
to 8 leave open.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from flatlab.lab.claims import Claims
from flatlab.lab.tables.columns import Column
from flatlab.lab.tables.eligibility import FEWEST_FOR_CORRELATION, NotEligible, require, too_few
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.petzka2021.minima import AFTER, GAP, GRID, MEASURES, RESCALED
from flatlab.papers.petzka2021.readings import READINGS
from flatlab.stats.correlation import Correlations
from flatlab.stats.estimate import Array, Estimate, over_seeds, undefined
from flatlab.stats.trends import contrast_of, mean, over_pairs, rise, tau_in_order
from flatlab.stats.verdict import Verdict, every, theorem

CLAIMS = Claims("petzka2021", READINGS)

# Figures 3 and 4: simulations ---------------------------------------------------------------------
LABELS, REPRESENTATIVENESS = "locally-constant-labels", "representativeness"
WEAK, STRONG = 0.3, 0.5
"""The size of a correlation below which there is none, and above which it is strong."""

LISTED = 0.5
"""The smallest class separation in the authors' list; at 0.1, which we add, labels are noise."""

TIGHT = 0.5
"""A tight bound exceeds the gap by less than this share of it."""

MUCH_SMALLER = 0.1
"""What is much smaller is less than this share."""


def of_variant(e: ResultTables, key: str, variant: str) -> xr.Dataset:
    """The part of the table of a simulation."""
    table = e.table(key)
    if variant not in table["variant"].values:
        raise NotEligible(f"{key} has no variant {variant}")
    return table.sel(variant=variant)


def rhos(e: ResultTables, variant: str) -> dict[float, Estimate]:
    """rho(kappa, gap) over all data sets, squared loss, by the separation they are drawn at.

    In the order of the separations that the variant reports.
    """
    chosen = of_variant(e, LABELS, variant).sel(loss="squared")
    return {c: _rho(chosen.isel(separation=n), c) for n, c in enumerate(chosen["drawn_at"].values)}


def _rho(table: xr.Dataset, drawn_at: float) -> Estimate:
    name = f"rho(kappa, gap), drawn at {drawn_at:g}"
    kappa = table["relative_flatness"].sel(normalization="none").transpose(*table["gap"].dims)
    columns = {"kappa": kappa.values.ravel(), "gap": table["gap"].values.ravel()}
    correlations = Correlations(columns, [""] * kappa.size)
    n = correlations.runs_used("kappa", "gap")
    if n < FEWEST_FOR_CORRELATION:
        return undefined(name, too_few(f"{name}:", n, "data sets", "it", FEWEST_FOR_CORRELATION))
    return replace(correlations.rho("kappa", "gap"), name=name, estimand="over all data sets")


def listed(by_c: dict[float, Estimate]) -> list[Estimate]:
    """The correlations at the separations of the authors' list."""
    if LISTED not in by_c:
        raise NotEligible(f"{LABELS} has no data sets drawn at {LISTED:g}")
    return [rho for drawn_at, rho in by_c.items() if drawn_at >= LISTED]


def order(values: list[float], name: str) -> dict[str, Any]:
    """Kendall's tau-a of values and their order, which has no interval, to be reported."""
    return {"quantity": name, "value": float(tau_in_order(np.array([values]))[0]), "n": len(values)}


def locally_constant(reading: str, variant: str = "") -> None:
    """The claims of Figure 3."""
    claim = partial(CLAIMS, "fig3", variant=variant)

    @claim(
        "rho(kappa, gap) increases with the class separation: mean over pairs of separations > 0",
        "Sec. 6, caption of Fig. 3",
        "[...] the higher the degree, the more correlated flatness is with generalization.",
    )
    def _(e: ResultTables) -> Verdict:
        by_c = rhos(e, reading)
        known = listed(by_c)
        name = "z rho(kappa, gap) at a larger separation - at a smaller one, mean over pairs"
        values = [rho.value for rho in known]
        return (contrast_of(name, known, over_pairs(len(known))) > 0).reporting(
            order(values, f"tau(separation, rho) from {LISTED:g} on"),
            order([rho.value for rho in by_c.values()], "tau(separation, rho) over all"),
            *(rho.report() for rho in by_c.values()),
        )

    @claim(
        f"|rho(kappa, gap)| < {WEAK} at the smallest class separation of the authors' list",
        "Sec. 6",
        "If labels are not locally constant, flatness does not correlate with generalization.",
        threshold=WEAK,
    )
    def _(e: ResultTables, limit: float) -> Verdict:
        by_c = rhos(e, reading)
        others = (rho.report() for drawn_at, rho in by_c.items() if drawn_at < LISTED)
        return listed(by_c)[0].within(limit).reporting(*others)

    claim(
        f"rho(kappa, gap) > 1 - {STRONG} at the largest class separation",
        "Sec. 6, caption of Fig. 3",
        "The correlation between flatness and generalization increases with the degree of "
        "locally constant labels.",
        threshold=STRONG,
    )(lambda e, distance: listed(rhos(e, reading))[-1] > 1 - distance)


def samples(e: ResultTables, variant: str, name: str) -> dict[float, Array]:
    """A quantity of Figure 4 at each separation: (samples), each the mean over its folds."""
    chosen = of_variant(e, REPRESENTATIVENESS, variant)
    values = chosen[name].mean("fold").transpose("separation", "repeat")
    require(values.sizes["repeat"], REPRESENTATIVENESS, "samples at a separation")
    return dict(zip(values["separation"].values.tolist(), values.values, strict=True))


def falling(e: ResultTables, variant: str, name: str) -> Verdict:
    """A quantity of Figure 4 falls with the separation."""
    by_c = samples(e, variant, name)
    label = f"{name} at a larger separation - at a smaller one, mean over pairs"
    tau = order([here.mean() for here in by_c.values()], f"tau(separation, mean {name})")
    each = (over_seeds(f"{name} at {c:g}", mean, here).report() for c, here in by_c.items())
    return (rise(label, [*by_c.values()]) < 0).reporting(tau, *each)


def tight(bounds: dict[float, Array], gaps: dict[float, Array], share: float) -> Verdict:
    """Bounds exceed the gap at every separation by less than this share of it.

    The share is of the gap itself: a bound is not tight because both are small. Where the gap is
    not decidedly above 0, the claim cannot hold; it can still fail elsewhere.
    """

    def at(c: float) -> Verdict:
        name, excess = f"bound - gap - {share:g} gap at {c:g}", bounds[c] - gaps[c]
        there_is_a_gap = over_seeds(f"gap at {c:g}", mean, gaps[c]) > 0
        return (over_seeds(name, mean, excess - share * gaps[c]) < 0).provided(
            there_is_a_gap, f"the gap at {c:g} is not decidedly above 0"
        )

    ratio = float(np.mean([*bounds.values()]) / np.mean([*gaps.values()]))
    entry = {"quantity": "bound / gap, of means over separations", "value": ratio, "n": len(gaps)}
    return every(at(c) for c in gaps).reporting(entry)


def approximated_bound(reading: str, variant: str = "") -> None:
    """The claims of Figure 4; the units are the samples."""
    claim = partial(CLAIMS, "fig4", variant=variant)

    @claim(
        "mean bound > mean gap at every separation",
        "Sec. 6, Fig. 4",
        "The results in Fig. 4 show that the approximated generalization bound tightly "
        "bounds the generalization error (note that this approximation is technically not a bound "
        "anymore).",
    )
    def _(e: ResultTables) -> Verdict:
        bounds, gaps = (samples(e, reading, name) for name in ("bound", "gap"))
        return every(
            over_seeds(f"bound - gap at {c:g}", mean, bounds[c] - gaps[c]) > 0 for c in gaps
        )

    claim(
        f"bound - gap < {TIGHT} gap at every separation, where the gap is above 0: tight",
        "Sec. 6, caption of Fig. 4",
        "Approximation of representativeness via KDE together with relative flatness leads "
        "to a tight generalization bound.",
        threshold=TIGHT,
    )(lambda e, share: tight(samples(e, reading, "bound"), samples(e, reading, "gap"), share))
    claim(
        "the bound decreases with the class separation: mean over pairs of separations < 0",
        "Sec. 6",
        "Moreover, as expected, the bound decreases the easier the learning problems become.",
    )(lambda e: falling(e, reading, "bound"))
    claim(
        "representativeness falls with the class separation: mean over pairs of separations < 0",
        "Sec. 6",
        "The lower the class separation of the synthetic datasets, the harder the learning "
        "problem and the less representative a random sample will be.",
        # the quantity is that of the bound: it is the larger, the less representative the sample
    )(lambda e: falling(e, reading, "representativeness"))


locally_constant("exact")
locally_constant("inverted", "-inverted")
locally_constant("reversed", "-reversed")
locally_constant("code", "-code")
approximated_bound("paper")
approximated_bound("code", "-code")


@CLAIMS(
    "fig4",
    f"|representativeness| < {MUCH_SMALLER} C_1 n^(-2/(4+m)) at every separation, mean of "
    "logarithms; the rest of the bound, C_2, is infinite here",
    "Sec. 1",
    "In practical settings, representativeness can be expected to be much smaller than the "
    "worst-case bound, which we demonstrate by a synthetic example in Sec. 6.",
    threshold=MUCH_SMALLER,
)
def _(e: ResultTables, share: float) -> Verdict:
    values, bounds = (samples(e, "paper", name) for name in ("representativeness", "worst_case"))
    name = "log10 |representativeness| / (C_1 n^(-2/(4+m)))"
    return every(  # C_1 of a cluster that is nearly flat is so large that a mean tells nothing
        over_seeds(f"{name} at {c:g}", mean, np.log10(abs(values[c]) / bounds[c])) < np.log10(share)
        for c in values
    )


# Figures 5 to 8: measures of minima and the generalization gap ------------------------------------
CHANGING = ("trace", "pac_bayes", "norm")
"""The measures that a rescaling of layers changes."""

FEATURES = {
    "plain": "kappa_trace",
    "standardized": "normalized_kappa_trace",
    "code": "tracial_flatness",
}
"""What relative flatness is, by the reading of its features; `code` is |w|^2 Tr(H)."""

OTHERS = {
    "layer": ("trace", "fisher_rao", "pac_bayes", "norm"),
    "network": ("network_trace", "fisher_rao", "pac_bayes", "network_norm"),
}
"""What relative flatness is compared with, by the reading of the weights."""

DROP = 0.2
"""By how much Fisher's z of a correlation that declines substantially is smaller."""

SAME = 1e-4
"""Relative; what does not change by more is invariant."""

SAME_OUTPUT = 1e-6


def columns(features: str) -> dict[str, str]:
    """The column that each measure is."""
    kappa = FEATURES[features]
    return {**MEASURES, "kappa": f"{kappa}[-1]", "kappa_before_last": f"{kappa}[-2]"}


def with_gap(e: ResultTables, *measures: str, features: str = "plain") -> list[Estimate]:
    """rho(measure, gap) of each measure, over the same networks."""
    known = columns(features)
    networks = e[GRID].with_table(with_rescaled).labelled(**{known[word]: word for word in known})
    return networks.rhos(*((known.get(measure, measure), GAP) for measure in measures))


def with_rescaled(table: xr.Dataset) -> xr.Dataset:
    """The table with the flatness of the authors' code, and what changes when it is rescaled."""
    changing = {measure + AFTER: Column.of(MEASURES[measure]).quantity for measure in CHANGING}
    rescaled = table.sel(transformation=RESCALED, drop=True)
    tracial = table["squared_norm_per_layer"] * table["hessian_trace_per_layer"]
    after = {measure: rescaled[name] for measure, name in changing.items()}
    return table.assign({**after, "tracial_flatness": tracial})


@CLAIMS(
    "fig5",
    "rho(relative flatness, gap) > rho(each of the other four measures, gap)",
    "Sec. 6",
    "The results in Fig. 5 show that indeed relative flatness has higher correlation than all "
    "the competing measures.",
    under=("features", "weights"),
)
def _(e: ResultTables, features: str, weights: str) -> Verdict:
    kappa, *rest = with_gap(e, "kappa", *OTHERS[weights], features=features)
    return every(kappa > rho for rho in rest).reporting(*(r.report() for r in (kappa, *rest)))


@CLAIMS(
    "fig5",
    "rho(Fisher-Rao norm, gap) < rho(each of the other four measures, gap)",
    "Sec. 6",
    "Of these measures, only the Fisher-Rao norm is reparameterization invariant but shows the "
    "weakest correlation in the experiment.",
    under=("features", "weights"),
)
def _(e: ResultTables, features: str, weights: str) -> Verdict:
    rest = [name for name in ("kappa", *OTHERS[weights]) if name != "fisher_rao"]
    fisher_rao, *rhos = with_gap(e, "fisher_rao", *rest, features=features)
    return every(fisher_rao < rho for rho in rhos)


CLAIMS(
    "fig5",
    f"rho(relative flatness, gap) > 1 - {STRONG}",
    "Sec. 6",
    "We then show that the novel relative flatness measure correlates strongly with "
    "generalization, also in the presence of reparameterizations.",
    threshold=STRONG,
    under=("features",),
)(lambda e, distance, features: with_gap(e, "kappa", features=features)[0] > 1 - distance)
CLAIMS.repeat("fig6", "fig5", "c1", "c2", "c3")


@CLAIMS(
    "fig7",
    f"relative flatness and Fisher-Rao norm change by less than {SAME:g} of their values",
    "App. C.2",
    "The results in Fig. 7 show that both our proposed relative flatness and the Fisher-Rao norm "
    "are invariant to these reparameterization.",
    nature="theorem",
    under=("features",),
)
def _(e: ResultTables, features: str) -> Verdict:
    def invariant(measure: str) -> Verdict:
        whole = e[GRID].with_table(with_rescaled)
        at = whole, whole.after(RESCALED)
        before, after = (networks.series(columns(features)[measure]) for networks in at)
        text = f"|change| <= {SAME:g} |value|; {measure}"
        return theorem(text, abs(after - before), SAME * abs(before))

    return invariant("kappa") & invariant("fisher_rao")


@CLAIMS(
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


@CLAIMS(
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


@CLAIMS(
    "fig8",
    "0 < rho(relative flatness of the layer before the last, gap) < rho(that of the last, gap)",
    "App. C.2",
    "It keeps the high correlation value, but due to less optimal feature space we observe smaller "
    "number, than in the previous calculation.",
    under=("features",),
)
def _(e: ResultTables, features: str) -> Verdict:
    before, last = with_gap(e, "kappa_before_last", "kappa", features=features)
    return (before > 0) & (before < last)
