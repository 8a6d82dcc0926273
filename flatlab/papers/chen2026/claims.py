"""chen2026: what the paper says of its figures.

Sharpness in the claims is sqrt(S), as in the paper's figures; the MLS bound is D of Eq. 59 and
kappa the relative flatness of the last layer. "Weak" means below 0.3. I is interpolation: from the
first checkpoint with a training loss below 1e-2 to the end.
"""

from __future__ import annotations

from functools import partial

from flatlab.claims import Claim, Evidence
from flatlab.claims.bounds import bounded, bounds_in_training, bounds_of_models, chain
from flatlab.claims.correlations import negative, negative_somewhere, pair_plot, positive
from flatlab.claims.quantities import (
    BATCH_SIZES,
    BOUND_C,
    GAP,
    KAPPA,
    LEARNING_RATES,
    LENET,
    MLP,
    MLS,
    MLS_BOUND,
    NMLS,
    NMLS_BOUND,
    VGG,
    VOLUME,
    S,
)
from flatlab.claims.trends import (
    Sweep,
    dimension_falls,
    dimension_is_followed_less,
    falling,
    flatter_but_worse,
    follows,
    misclassified,
    not_always_better,
    ordered,
    volume_falls_on_a_plateau,
    volume_falls_slower,
    volume_is_followed_less,
)
from flatlab.papers.chen2026._zoo import PRETRAINED
from flatlab.stats import Verdict, every

GRIDS = (MLP, VGG, LENET)
COMPRESSION = (MLS, NMLS, VOLUME)


def perceptron(sweep: Sweep, caption: str) -> list[Claim]:
    """The claims of both trend figures of the multilayer perceptron, I.10 and I.11."""
    return [
        follows("c1", MLP, sweep, (MLS, NMLS), caption),
        volume_falls_slower("c2", MLP, sweep, "Sec. 4.1"),
        ordered("c3", MLP, sweep, (S,), "Sec. 4.1"),
        flatter_but_worse("c4", MLP, sweep, "Sec. 5"),
    ]


def bounds_of_perceptrons(e: Evidence) -> Verdict:
    """Theorems for fully connected networks."""
    values = partial(e.values, MLP)
    return chain(values) & bounded(values, "NMLS")


CLAIMS: dict[str, list[Claim]] = {
    "fig2": [
        ordered("c1", VGG, LEARNING_RATES, (S,), "caption of Fig. 2, Sec. 4.1"),
        ordered("c2", VGG, LEARNING_RATES, COMPRESSION, "caption of Fig. 2"),
        falling("c3", VGG, LEARNING_RATES, (S, *COMPRESSION), "Sec. 4.1"),
        volume_is_followed_less("c4", VGG, LEARNING_RATES, (MLS, NMLS)),
        dimension_falls("c5", VGG, LEARNING_RATES, "Sec. 3.2, 4.4"),
        dimension_is_followed_less("c6", VGG, LEARNING_RATES, "Sec. 4.4"),
        not_always_better("c7", [(VGG, LEARNING_RATES), (MLP, LEARNING_RATES)], "Sec. 5"),
    ],
    "fig3": [
        ordered("c1", VGG, BATCH_SIZES, (S,), "caption of Fig. 3"),
        ordered("c2", VGG, BATCH_SIZES, COMPRESSION, "caption of Fig. 3"),
        falling("c3", VGG, BATCH_SIZES, (S, *COMPRESSION), "Sec. 4.1"),
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
        bounds_of_models("c3", GRIDS, "Prop. 3.8, 3.10"),
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
        Claim(
            "c10",
            "rho(MLS, MLS bound D) < 0",
            "App. H.2, 5",
            negative(MLP, (MLS, MLS_BOUND)),
        ),
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
