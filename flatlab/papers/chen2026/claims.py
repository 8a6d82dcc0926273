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
from flatlab.claims.judges import negative, negative_somewhere, positive
from flatlab.claims.sweeps import Sweep, difference_of_ends, monotonic
from flatlab.papers.chen2026._bounds import bounded, bounds_in_training, bounds_of_models, chain
from flatlab.papers.chen2026._pairs import pair_plot
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
from flatlab.papers.chen2026._trends import (
    at_the_end,
    dimension_falls,
    falls,
    follows,
    in_each_line,
    misclassified,
    volume_falls_on_a_plateau,
    volume_falls_slower,
)
from flatlab.papers.chen2026._zoo import PRETRAINED
from flatlab.stats import Verdict, every, some

COMPRESSION = (MLS, NMLS, VOLUME)


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
    return chain(values) & bounded(values, "NMLS")


def perceptron(sweep: Sweep, caption: str) -> list[Claim]:
    """The claims of both trend figures of the multilayer perceptron, I.10 and I.11."""
    return [
        follows("c1", MLP, sweep, (MLS, NMLS), caption),
        volume_falls_slower("c2", MLP, sweep, "Sec. 4.1"),
        at_the_end("c3", MLP, sweep, (S,), "Sec. 4.1"),
        Claim(
            "c4",
            "of some two settings the one of lower sharpness has the lower test accuracy",
            "Sec. 5",
            partial(flatter_but_worse, sweep=sweep),
        ),
    ]


CLAIMS: dict[str, list[Claim]] = {
    "fig2": [
        at_the_end("c1", VGG, LEARNING_RATES, (S,), "caption of Fig. 2, Sec. 4.1"),
        at_the_end("c2", VGG, LEARNING_RATES, COMPRESSION, "caption of Fig. 2"),
        falls("c3", VGG, LEARNING_RATES, (S, *COMPRESSION), "Sec. 4.1"),
        in_each_line(
            "c4",
            "rho_t(sharpness, each of MLS, NMLS) > rho_t(sharpness, log volume) in I",
            "Sec. 4.1",
            VGG,
            LEARNING_RATES,
            volume_is_followed_less,
        ),
        dimension_falls("c5", VGG, LEARNING_RATES, "Sec. 3.2, 4.4"),
        in_each_line(
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
        at_the_end("c1", VGG, BATCH_SIZES, (S,), "caption of Fig. 3"),
        at_the_end("c2", VGG, BATCH_SIZES, COMPRESSION, "caption of Fig. 3"),
        falls("c3", VGG, BATCH_SIZES, (S, *COMPRESSION), "Sec. 4.1"),
        volume_falls_on_a_plateau("c4", VGG, "Sec. 4.1"),
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
    "figJ12": misclassified(VGG, MLS, "App. J"),
}
