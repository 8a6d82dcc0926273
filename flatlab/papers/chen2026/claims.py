"""chen2026: what the paper says of its figures.

Sharpness in the claims is sqrt(S), as in the paper's figures; the MLS bound is D of Eq. 59 and
kappa the relative flatness of the last layer. "Weak" means below 0.3. I is interpolation: from the
first checkpoint with a training loss below 1e-2 to the end.
"""

from __future__ import annotations

from functools import partial
from itertools import permutations

from flatlab.claims import Claim, Evidence
from flatlab.claims.curves import Curves
from flatlab.claims.judges import exceed, negative, negative_somewhere, positive, theorems
from flatlab.claims.sweeps import Sweep, difference_of_ends, monotonic
from flatlab.papers.chen2026 import _trends as trends
from flatlab.papers.chen2026._bounds import CHAIN, OF_NMLS, bounds_in_training, bounds_of_models
from flatlab.papers.chen2026._quantities import (
    BATCH_SIZES,
    BOUND_C,
    DIMENSION,
    GAP,
    GRIDS,
    KAPPA,
    LEARNING_RATES,
    LENET,
    MLP,
    MLS,
    MLS_BOUND,
    NMLS,
    NMLS_BOUND,
    TEST_ACCURACY,
    VGG,
    VOLUME,
    S,
)
from flatlab.papers.chen2026._zoo import PRETRAINED
from flatlab.stats import Verdict, every, some

COMPRESSION = (MLS, NMLS, VOLUME)
WEAK = 0.3


def volume_is_followed_less(c: Curves) -> Verdict:
    """Sharpness and sensitivity go together more closely than sharpness and volume."""
    *more, less = c.rhos((S, MLS), (S, NMLS), (S, VOLUME), window="I")
    return every(rho > less for rho in more)


def dimension_is_followed_less(c: Curves) -> Verdict:
    """Sharpness says less of the dimension than of the sensitivity."""
    weak, strong = c.rhos((S, DIMENSION), (S, MLS), window="I")
    return abs(weak) < strong


def not_always_better(e: Evidence) -> Verdict:
    """Larger learning rates do not uniformly give better test accuracy."""
    return some(~monotonic(e, grid, LEARNING_RATES, TEST_ACCURACY, True) for grid in (VGG, MLP))


def flatter_but_worse(e: Evidence, sweep: Sweep) -> Verdict:
    """Lower sharpness does not always come with higher test accuracy."""
    return some(
        (difference_of_ends(a, b, S) < 0) & (difference_of_ends(a, b, TEST_ACCURACY) < 0)
        for a, b in permutations([e.curves(MLP, setting) for setting in sweep], 2)
    )


def bounds_of_perceptrons(e: Evidence) -> Verdict:
    """Theorems for fully connected networks."""
    values = partial(e.values, MLP)
    return theorems(CHAIN, values) & theorems(OF_NMLS, values)


def perceptron(sweep: Sweep, caption: str) -> list[Claim]:
    """The claims of both trend figures of the multilayer perceptron, I.10 and I.11."""
    return [
        trends.follows("c1", MLP, sweep, (MLS, NMLS), caption),
        trends.volume_falls_slower("c2", MLP, sweep, "Sec. 4.1"),
        trends.at_the_end("c3", MLP, sweep, (S,), "Sec. 4.1"),
        Claim(
            "c4",
            "of some two settings the one of lower sharpness has the lower test accuracy",
            "Sec. 5",
            partial(flatter_but_worse, sweep=sweep),
        ),
    ]


def pair_plot(grid: str) -> list[Claim]:
    """The claims of each pair plot: H.7, H.8 and H.9."""

    def sharpness_does_not_tell_dimension(e: Evidence) -> Verdict:
        weak, *strong = e.rhos(grid, (S, DIMENSION), (S, MLS), (S, VOLUME))
        return every(abs(weak) < rho for rho in strong)

    compression = [(S, name) for name in COMPRESSION]
    return [
        Claim("c1", "rho(NMLS, NMLS bound) > 0", "App. H.2, 4", positive(grid, (NMLS, NMLS_BOUND))),
        Claim(
            "c2",
            "rho(sharpness, each of MLS, NMLS, log volume) > 0",
            "Sec. 4.2",
            positive(grid, *compression),
        ),
        Claim("c3", "rho(log volume, MLS) > 0", "App. H.2, 2", positive(grid, (VOLUME, MLS))),
        Claim(
            "c4",
            "rho(sharpness, MLS) > rho(sharpness, log volume)",
            "Sec. 3.2",
            exceed(grid, [(S, MLS)], [(S, VOLUME)]),
        ),
        Claim(
            "c5",
            "|rho(sharpness, dimension)| < rho(sharpness, each of MLS, log volume)",
            "Sec. 4.4",
            sharpness_does_not_tell_dimension,
        ),
        Claim("c6", "rho(sharpness, gap) > 0", "App. H.2, 3", positive(grid, (S, GAP))),
        Claim(
            "c7",
            "rho(gap, each of NMLS bound, MLS, NMLS) > 0",
            "App. H.2, 1",
            positive(grid, (NMLS_BOUND, GAP), (MLS, GAP), (NMLS, GAP)),
        ),
        Claim(
            "c8",
            "rho(sharpness, each of MLS, NMLS, log volume) > rho(sharpness, gap)",
            "Sec. 5",
            exceed(grid, compression, [(S, GAP)]),
        ),
        Claim(
            "c9",
            f"rho(kappa, gap) < {WEAK}: weak or negative",
            "App. H.2, 6",
            lambda e: e.rho(grid, KAPPA, GAP) < WEAK,
        ),
    ]


CLAIMS: dict[str, list[Claim]] = {
    "fig2": [
        trends.at_the_end("c1", VGG, LEARNING_RATES, (S,), "caption of Fig. 2, Sec. 4.1"),
        trends.at_the_end("c2", VGG, LEARNING_RATES, COMPRESSION, "caption of Fig. 2"),
        trends.falls("c3", VGG, LEARNING_RATES, (S, *COMPRESSION), "Sec. 4.1"),
        trends.in_each_line(
            "c4",
            "rho_t(sharpness, each of MLS, NMLS) > rho_t(sharpness, log volume) in I",
            "Sec. 4.1",
            VGG,
            LEARNING_RATES,
            volume_is_followed_less,
        ),
        trends.dimension_falls("c5", VGG, LEARNING_RATES, "Sec. 3.2, 4.4"),
        trends.in_each_line(
            "c6",
            "|rho_t(sharpness, dimension)| < rho_t(sharpness, MLS) in I",
            "Sec. 4.4",
            VGG,
            LEARNING_RATES,
            dimension_is_followed_less,
        ),
        Claim(
            "c7",
            f"test accuracy at the end does not rise with lr, on {VGG} or {MLP}",
            "Sec. 5",
            not_always_better,
        ),
    ],
    "fig3": [
        trends.at_the_end("c1", VGG, BATCH_SIZES, (S,), "caption of Fig. 3"),
        trends.at_the_end("c2", VGG, BATCH_SIZES, COMPRESSION, "caption of Fig. 3"),
        trends.falls("c3", VGG, BATCH_SIZES, (S, *COMPRESSION), "Sec. 4.1"),
        trends.volume_falls_on_a_plateau("c4", VGG, "Sec. 4.1"),
    ],
    "fig4": [
        Claim(
            "c1",
            "rho(NMLS, NMLS bound) > 0 in each of the three grids",
            "Sec. 4.2, App. H.2, 4",
            lambda e: every(e.rho(grid, NMLS, NMLS_BOUND) > 0 for grid in GRIDS),
        ),
        Claim(
            "c2",
            "rho(MLS, MLS bound) < 0 in at least one of the three grids",
            "Sec. 4.2, App. H.2, 5",
            negative_somewhere(GRIDS, (MLS, MLS_BOUND)),
        ),
        bounds_of_models("c3", "Prop. 3.8, 3.10"),
        # Said of Figures H.7 to H.9 together; here the three grids are at hand.
        Claim(
            "c13",
            "rho(MLS, MLS bound) or rho(kappa, gap) < 0 in at least one of the three grids",
            "Sec. 4.2",
            negative_somewhere(GRIDS, (MLS, MLS_BOUND), (KAPPA, GAP)),
        ),
    ],
    "fig5": PRETRAINED,
    "figH6": bounds_in_training("App. H.1", "caption of Fig. H.6"),
    "figH7": pair_plot(VGG),
    "figH8": [
        *pair_plot(MLP),
        Claim("c10", "rho(MLS, MLS bound D) < 0", "App. H.2, 5", negative(MLP, (MLS, MLS_BOUND))),
        Claim("c11", "rho(MLS, bound C) > 0", "caption of Fig. H.6", positive(MLP, (MLS, BOUND_C))),
        Claim("c12", "rho(sharpness, MLS) > 0", "Sec. 3.2", positive(MLP, (S, MLS))),
        Claim(
            "theorem",
            "A <= B <= C <= D and NMLS <= NMLS bound, for every network",
            "Eq. 59, Prop. 3.10",
            bounds_of_perceptrons,
        ),
    ],
    "figH9": pair_plot(LENET),
    "figI10": perceptron(BATCH_SIZES, "caption of Fig. I.10"),
    "figI11": perceptron(LEARNING_RATES, "caption of Fig. I.11"),
    "figJ12": trends.misclassified(VGG, MLS, "App. J"),
}
