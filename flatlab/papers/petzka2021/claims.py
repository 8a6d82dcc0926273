"""petzka2021: what the paper says of its figures.

kappa is the relative flatness of the last layer. Each claim of Figures 3 and 4 is judged twice: on
the experiment that the paper describes and, with the ending -code, on its authors' public code;
those of Figure 3 also, with the ending -reversed, on the paper's experiment with the order of class
separations that this code has.
"""

from collections.abc import Callable

import numpy as np

from flatlab.claims import Claims, Evidence, numbered, states
from flatlab.stats import Correlations, Estimate, Verdict, every, not_run
from flatlab.stats.trends import over_seeds, tau, tau_in_order

LABELS, REPRESENTATIVENESS = "locally-constant-labels", "representativeness"
WEAK, STRONG = 0.3, 0.5
FIRST_OF_CODE = 0.5
"""The smallest separation in the authors' code for Figure 4."""

TIGHT, LEAST = 0.5, 0.1
"""A bound is tight if it exceeds the gap by less than half of max(gap, 0.1)."""


def separations(e: Evidence) -> list[float]:
    """The class separations of Figure 3."""
    return e.table(LABELS)["separation"].values.tolist()


def rho(e: Evidence, variant: str, separation: float) -> Estimate:
    """rho(kappa, gap) over all data sets of a class separation, squared loss."""
    table = e.table(LABELS).sel(variant=variant, loss="squared", separation=separation)
    kappa = table["relative_flatness"].sel(normalization="none")
    columns = {"kappa": kappa.values.ravel(), "gap": table["gap"].values.ravel()}
    return Correlations(columns, [""] * kappa.size).rho("kappa", "gap")


def rising(by_separation: dict[float, Estimate], name: str) -> Estimate:
    """Kendall's tau-a of separation and correlation; resamples are of data sets."""
    estimates = [by_separation[c] for c in sorted(by_separation)]
    values = tau_in_order(np.column_stack([[e.value, *e.resampled] for e in estimates]))
    strata = np.concatenate([np.full(len(e.strata), n) for n, e in enumerate(estimates)])
    return Estimate(name, float(values[0]), values[1:], strata)


def locally_constant(variant: str, ending: str = "") -> Claims:
    """The claims of Figure 3."""

    @states("rho(kappa, gap) increases with the class separation", "Sec. 6, caption of Fig. 3")
    def rises(e: Evidence) -> Verdict:
        found = {c: rho(e, variant, c) for c in separations(e)}
        known = {c: estimate for c, estimate in found.items() if not estimate.reason}
        if len(known) < 2:
            return not_run(f"{variant}: fewer than two separations have a correlation")
        later = {c: estimate for c, estimate in known.items() if c >= FIRST_OF_CODE}
        verdict = rising(known, "tau(separation, rho(kappa, gap))") > 0
        name = f"tau from separation {FIRST_OF_CODE} on"  # without the smallest ones
        return verdict.reporting(
            *([rising(later, name).report()] if len(later) > 1 else []),
            *({**part.report(), "quantity": f"rho at {c:g}"} for c, part in found.items()),
        )

    @states(f"|rho(kappa, gap)| < {WEAK} at the smallest class separation", "Sec. 6")
    def weak(e: Evidence) -> Verdict:
        # not of its absolute value, whose resamples pile up at zero
        smallest = rho(e, variant, min(separations(e)))
        return (smallest < WEAK) & (smallest > -WEAK)

    @states(f"rho(kappa, gap) > {STRONG} at the largest class separation", "Sec. 6")
    def strong(e: Evidence) -> Verdict:
        return rho(e, variant, max(separations(e))) > STRONG

    return numbered(rises, weak, strong, ending=ending)


def slack(bound: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """How much farther a bound is from the gap than a tight bound may be."""
    return bound - gap - TIGHT * np.maximum(gap, LEAST)


def approximated_bound(variant: str, ending: str = "") -> Claims:
    """The claims of Figure 4; repeats are resampled."""

    def margins(
        e: Evidence, label: str, statistic: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> list[Estimate]:
        """A statistic of bound and gap at each separation."""
        table = e.table(REPRESENTATIVENESS).sel(variant=variant).mean("fold")
        return [
            over_seeds(f"{label} at {c:g}", statistic, here["bound"].values, here["gap"].values)
            for c, here in ((c, table.sel(separation=c)) for c in table["separation"].values)
        ]

    @states("mean bound > mean gap at every separation", "Fig. 4")
    def holds(e: Evidence) -> Verdict:
        return every(x > 0 for x in margins(e, "bound - gap", np.subtract))

    @states(
        f"bound - gap < {TIGHT} max(gap, {LEAST}) at every separation: tight",
        "Sec. 6, caption of Fig. 4",
    )
    def is_tight(e: Evidence) -> Verdict:
        return every(x < 0 for x in margins(e, f"bound - gap - {TIGHT} max(gap, {LEAST})", slack))

    @states("the bound decreases with the class separation", "Sec. 6")
    def falls(e: Evidence) -> Verdict:
        table = e.table(REPRESENTATIVENESS).sel(variant=variant).mean("fold")
        bound = table["bound"].transpose("separation", "repeat")
        strata = np.repeat(np.arange(bound.sizes["separation"]), bound.sizes["repeat"])
        separations = bound["separation"].values[strata]
        return tau("tau(separation, bound)", separations, bound.values.ravel(), strata) < 0

    return numbered(holds, is_tight, falls, ending=ending)


CLAIMS: dict[str, Claims] = {
    "fig3": locally_constant("exact")
    | locally_constant("reversed", "-reversed")
    | locally_constant("code", "-code"),
    "fig4": approximated_bound("paper") | approximated_bound("code", "-code"),
}
