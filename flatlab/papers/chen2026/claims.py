"""chen2026: what the paper says of its figures.

Sharpness in the claims is sqrt(S), as in the paper's figures; the MLS bound is D of Eq. 59 and
kappa is the relative flatness of the last layer. "Weak" means below 0.3. I is interpolation: from
the first checkpoint with a training loss below 1e-2 to the end.

The bounds of sensitivity, A <= B <= C <= D, MLS and NMLS, are theorems where no weights are shared,
and proxies in convolutional networks: there the violations are counted and not judged.
"""

from collections.abc import Iterator
from functools import partial
from itertools import permutations
from typing import Any

from flatlab.claims import Claim, Claims, Evidence, Judge, states
from flatlab.claims.curves import Curves, Sweep, difference_of_ends, monotonic
from flatlab.claims.evidence import Pair
from flatlab.papers.chen2026 import _shared as shared
from flatlab.papers.chen2026._shared import MLP, VGG, S, pairs
from flatlab.papers.chen2026._zoo import PRETRAINED
from flatlab.stats import Verdict, every, some, violations
from flatlab.tables.selection import end_of_training

LENET = "lenet-grid"
GRIDS = (MLP, VGG, LENET)
COMPRESSION = ("MLS", "NMLS", "log volume")

WEAK = 0.3
RATES, BATCHES = shared.Lines(VGG, shared.LEARNING_RATES), shared.Lines(VGG, shared.BATCH_SIZES)
MLS_AND_BOUND, KAPPA_AND_GAP = *pairs("MLS", ["MLS bound"]), *pairs("kappa", ["gap"])
OF_NMLS = {"NMLS <= NMLS bound": ("nmls", "nmls_bound")}
BOUNDED = {"MLS <= MLS bound": ("mls", "bound_d"), **OF_NMLS}
BY_NORM = {"bound_d": "d", "nmls_bound": "nmls"}
"""What these bounds are called in the quantity `bound_by_norm`."""


def volume_is_followed_less(c: Curves) -> Verdict:
    """Sharpness and sensitivity go together more closely than sharpness and volume."""
    *more, less = c.rhos(*pairs("sharpness", COMPRESSION), window="I")
    return every(rho > less for rho in more)


def dimension_is_followed_less(c: Curves) -> Verdict:
    """Sharpness says less about the dimension than about the sensitivity."""
    weak, strong = c.rhos(*pairs("sharpness", ["dimension", "MLS"]), window="I")
    return abs(weak) < strong


@states(f"test accuracy at the end does not rise with lr, on {VGG} or {MLP}", "Sec. 5")
def not_always_better(e: Evidence) -> Verdict:
    return some(
        ~monotonic(e, grid, shared.LEARNING_RATES, "test_accuracy", True) for grid in (VGG, MLP)
    )


def negative_somewhere(*pairs: Pair) -> Judge:
    """At least one of these correlations is below zero in at least one grid."""
    return lambda e: some(e.rho(grid, x, y) < 0 for grid in GRIDS for x, y in pairs)


@states("A <= B <= C <= D and NMLS <= NMLS bound, for every network", "Eq. 59, Prop. 3.10")
def of_perceptrons(e: Evidence) -> Verdict:
    values = partial(e.values, MLP)
    return shared.theorems(shared.CHAIN, values) & shared.theorems(OF_NMLS, values)


@states(
    "MLS <= MLS bound and NMLS <= NMLS bound for every perceptron (others are counted)",
    "Prop. 3.8, 3.10",
)
def of_all_networks(e: Evidence) -> Verdict:
    """MLS and NMLS within their bounds: a theorem on the MLP grid, a number on the others."""
    verdict = shared.theorems(BOUNDED, partial(e.values, MLP))
    others = [grid for grid in GRIDS if grid != MLP and grid in e.tables]
    return verdict.reporting(*(entry for grid in others for entry in counted(e, grid)))


def counted(e: Evidence, grid: str) -> Iterator[dict[str, Any]]:
    """Networks of a grid that violate a bound at the end, for each norm of a kernel measured."""
    table = end_of_training(e.table(grid))
    for text, (name, bound) in BOUNDED.items():
        if name not in table:
            continue
        found = {"kernel": table[bound]} if bound in table else {}
        if "bound_by_norm" in table:
            by_norm = table["bound_by_norm"].sel(bound=BY_NORM[bound])
            found = {str(norm): by_norm.sel(norm=norm) for norm in table["norm"].values}
        for norm, limits in found.items():
            count = violations(f"{text}, {norm} norm; {grid}", table[name], limits)
            if count["of"]:
                yield count


def perceptron(sweep: Sweep, caption: str) -> Claims:
    """The claims about both trend figures of the multilayer perceptron, I.10 and I.11."""

    @states(
        "for some two settings the one of lower sharpness has the lower test accuracy", "Sec. 5"
    )
    def flatter_but_worse(e: Evidence) -> Verdict:
        return some(
            (difference_of_ends(a, b, S) < 0) & (difference_of_ends(a, b, "test_accuracy") < 0)
            for a, b in permutations([Curves(e, MLP, setting) for setting in sweep], 2)
        )

    lines = shared.Lines(MLP, sweep)
    return {
        "c1": lines.follows(("MLS", "NMLS"), caption),
        "c2": lines.volume_falls_slower("Sec. 4.1"),
        "c3": lines.at_the_end(("sharpness",), "Sec. 4.1"),
        "c4": flatter_but_worse,
    }


def pair_plot(grid: str) -> Claims:
    """The claims about each pair plot: H.7, H.8 and H.9."""

    @states("|rho(sharpness, dimension)| < rho(sharpness, each of MLS, log volume)", "Sec. 4.4")
    def sharpness_does_not_tell_dimension(e: Evidence) -> Verdict:
        weak, *strong = e.rhos(grid, *pairs("sharpness", ["dimension", "MLS", "log volume"]))
        return every(abs(weak) < rho for rho in strong)

    return {
        "c1": shared.rise_together(grid, "NMLS", ["NMLS bound"], "App. H.2, 4"),
        "c2": shared.rise_together(grid, "sharpness", COMPRESSION, "Sec. 4.2"),
        "c3": shared.rise_together(grid, "log volume", ["MLS"], "App. H.2, 2"),
        "c4": shared.closer(grid, "sharpness", ["MLS"], ["log volume"], "Sec. 3.2"),
        "c5": sharpness_does_not_tell_dimension,
        "c6": shared.rise_together(grid, "sharpness", ["gap"], "App. H.2, 3"),
        "c7": shared.rise_together(grid, "gap", ["NMLS bound", "MLS", "NMLS"], "App. H.2, 1"),
        "c8": shared.closer(grid, "sharpness", COMPRESSION, ["gap"], "Sec. 5"),
        "c9": Claim(
            f"rho(kappa, gap) < {WEAK}: weak or negative",
            "App. H.2, 6",
            lambda e: e.rho(grid, *KAPPA_AND_GAP) < WEAK,
        ),
    }


CLAIMS: dict[str, Claims] = {
    "fig2": {
        "c1": RATES.at_the_end(("sharpness",), "caption of Fig. 2, Sec. 4.1"),
        "c2": RATES.at_the_end(COMPRESSION, "caption of Fig. 2"),
        "c3": RATES.falls(("sharpness", *COMPRESSION), "Sec. 4.1"),
        "c4": RATES.each(
            "rho_t(sharpness, each of MLS, NMLS) > rho_t(sharpness, log volume) in I, in each line",
            "Sec. 4.1",
            volume_is_followed_less,
        ),
        "c5": RATES.dimension_falls("Sec. 3.2, 4.4"),
        "c6": RATES.each(
            "|rho_t(sharpness, dimension)| < rho_t(sharpness, MLS) in I, in each line",
            "Sec. 4.4",
            dimension_is_followed_less,
        ),
        "c7": not_always_better,
    },
    "fig3": {
        "c1": BATCHES.at_the_end(("sharpness",), "caption of Fig. 3"),
        "c2": BATCHES.at_the_end(COMPRESSION, "caption of Fig. 3"),
        "c3": BATCHES.falls(("sharpness", *COMPRESSION), "Sec. 4.1"),
        "c4": shared.volume_falls_on_a_plateau("Sec. 4.1"),
    },
    "fig4": {
        "c1": Claim(
            "rho(NMLS, NMLS bound) > 0 in each of the three grids",
            "Sec. 4.2, App. H.2, 4",
            lambda e: every(e.rho(grid, "nmls", "nmls_bound") > 0 for grid in GRIDS),
        ),
        "c2": Claim(
            "rho(MLS, MLS bound) < 0 in at least one of the three grids",
            "Sec. 4.2, App. H.2, 5",
            negative_somewhere(MLS_AND_BOUND),
        ),
        "c3": of_all_networks,
        # Said of Figures H.7 to H.9 together; the tables of the three grids are available here.
        "c13": Claim(
            "rho(MLS, MLS bound) or rho(kappa, gap) < 0 in at least one of the three grids",
            "Sec. 4.2",
            negative_somewhere(MLS_AND_BOUND, KAPPA_AND_GAP),
        ),
    },
    "fig5": PRETRAINED,
    "figH6": shared.bounds_in_training("App. H.1", "caption of Fig. H.6"),
    "figH7": pair_plot(VGG),
    "figH8": {
        **pair_plot(MLP),
        "c10": Claim(
            "rho(MLS, MLS bound) < 0", "App. H.2, 5", lambda e: e.rho(MLP, *MLS_AND_BOUND) < 0
        ),
        "c11": shared.rise_together(MLP, "MLS", ["bound C"], "caption of Fig. H.6"),
        "c12": shared.rise_together(MLP, "sharpness", ["MLS"], "Sec. 3.2"),
        "theorem": of_perceptrons,
    },
    "figH9": pair_plot(LENET),
    "figI10": perceptron(shared.BATCH_SIZES, "caption of Fig. I.10"),
    "figI11": perceptron(shared.LEARNING_RATES, "caption of Fig. I.11"),
    "figJ12": shared.misclassified("MLS", "App. J"),
}
