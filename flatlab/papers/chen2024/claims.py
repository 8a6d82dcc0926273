"""chen2024: what the paper says of its figures.

Sharpness in the claims is sqrt(S), G the mean of |J|_F^2, C and D the bounds of MLS. The networks
are those of chen2026; pair plots show the first four seeds of the five settings.
"""

from __future__ import annotations

from flatlab.claims import Claim
from flatlab.claims.bounds import bounds_in_training
from flatlab.claims.correlations import bounds_split, pair_plot_of_few
from flatlab.claims.quantities import BATCH_SIZES, LEARNING_RATES, MLP, VGG, VOLUME, G, S
from flatlab.claims.trends import (
    Sweep,
    dimension_falls,
    falling,
    follows,
    misclassified,
    ordered,
    volume_falls_on_a_plateau,
    volume_falls_slower,
)

SEEDS = 4


def perceptron(sweep: Sweep, caption: str) -> list[Claim]:
    """The claims of both trend figures of the multilayer perceptron, E.7 and E.8."""
    return [
        ordered("c1", MLP, sweep, (S, VOLUME), caption),
        follows("c2", MLP, sweep, (G,), caption),
        volume_falls_slower("c3", MLP, sweep, "Sec. 4.1"),
    ]


CLAIMS: dict[str, list[Claim]] = {
    "fig1": [
        falling("c1", VGG, LEARNING_RATES, (S, VOLUME, G), "Sec. 4.1, caption of Fig. 1"),
        ordered("c2", VGG, LEARNING_RATES, (S, VOLUME), "Sec. 4.1"),
        dimension_falls("c3", VGG, LEARNING_RATES, "Sec. 4.3"),
    ],
    "fig2": [
        ordered("c1", VGG, BATCH_SIZES, (S, VOLUME, G), "caption of Fig. 2"),
        volume_falls_on_a_plateau("c2", VGG, "Sec. 4.1"),
    ],
    "fig3": misclassified(VGG, G, "Sec. 4.2"),
    "figD4": bounds_in_training("App. D.1", "caption of Fig. D.4"),
    "figD5": pair_plot_of_few(VGG, SEEDS),
    "figD6": [
        *pair_plot_of_few(MLP, SEEDS),
        Claim(
            "c5",
            "rho(C, MLS) > 0, rho(D, MLS) < 0 and rho(D, test loss) < 0",
            "caption of Fig. D.4, App. D.3",
            bounds_split(MLP, SEEDS),
        ),
    ],
    "figE7": perceptron(BATCH_SIZES, "caption of Fig. E.7"),
    "figE8": perceptron(LEARNING_RATES, "caption of Fig. E.8"),
}
