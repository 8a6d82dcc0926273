"""chen2024: what the paper says of its figures.

Sharpness in the claims is sqrt(S), G the mean of |J|_F^2, C and D the bounds of MLS. The networks
are those of chen2026; pair plots show the first four seeds of the five settings.
"""

from __future__ import annotations

from flatlab.claims import Claim, Evidence
from flatlab.claims.judges import exceed, negative, positive
from flatlab.claims.sweeps import Sweep
from flatlab.papers.chen2026 import _trends as trends
from flatlab.papers.chen2026._bounds import bounds_in_training
from flatlab.papers.chen2026._quantities import (
    BATCH_SIZES,
    BOUND_C,
    DIMENSION,
    LEARNING_RATES,
    MLP,
    MLS,
    MLS_BOUND,
    TEST_LOSS,
    VGG,
    VOLUME,
    G,
    S,
)
from flatlab.stats import Verdict

SEEDS = 4
NEARLY_ONE = 0.9


def perceptron(sweep: Sweep, caption: str) -> list[Claim]:
    """The claims of both trend figures of the multilayer perceptron, E.7 and E.8."""
    return [
        trends.at_the_end("c1", MLP, sweep, (S, VOLUME), caption),
        trends.follows("c2", MLP, sweep, (G,), caption),
        trends.volume_falls_slower("c3", MLP, sweep, "Sec. 4.1"),
    ]


def pair_plot(grid: str) -> list[Claim]:
    """The claims of both pair plots, D.5 and D.6."""

    def nearly_one(e: Evidence) -> Verdict:
        # G is quadratic in what MLS is linear in
        rho, of_root = e.rhos(grid, (G, MLS), (f"root_{G}", MLS), seeds=SEEDS, roots=(G,))
        return (rho > NEARLY_ONE).reporting(of_root.report())

    weaker = [(VOLUME, TEST_LOSS), (DIMENSION, TEST_LOSS)]
    claims = {
        f"rho(G, MLS) > {NEARLY_ONE} (that of the root of G is reported)": nearly_one,
        "rho(log volume, each of sharpness, MLS) > 0": positive(
            grid, (VOLUME, S), (VOLUME, MLS), seeds=SEEDS
        ),
        "rho(sharpness, test loss) > 0": positive(grid, (S, TEST_LOSS), seeds=SEEDS),
        "rho(MLS, test loss) > rho(each of log volume, dimension, test loss)": exceed(
            grid, [(MLS, TEST_LOSS)], weaker, SEEDS
        ),
    }
    return [
        Claim(f"c{number}", text, "App. D.2", judge)
        for number, (text, judge) in enumerate(claims.items(), start=1)
    ]


def bounds_split(e: Evidence) -> Verdict:
    """C follows MLS, D goes against it and against the test loss."""
    upward = positive(MLP, (BOUND_C, MLS), seeds=SEEDS)
    downward = negative(MLP, (MLS_BOUND, MLS), (MLS_BOUND, TEST_LOSS), seeds=SEEDS)
    return upward(e) & downward(e)


CLAIMS: dict[str, list[Claim]] = {
    "fig1": [
        trends.falls("c1", VGG, LEARNING_RATES, (S, VOLUME, G), "Sec. 4.1, caption of Fig. 1"),
        trends.at_the_end("c2", VGG, LEARNING_RATES, (S, VOLUME), "Sec. 4.1"),
        trends.dimension_falls("c3", VGG, LEARNING_RATES, "Sec. 4.3"),
    ],
    "fig2": [
        trends.at_the_end("c1", VGG, BATCH_SIZES, (S, VOLUME, G), "caption of Fig. 2"),
        trends.volume_falls_on_a_plateau("c2", VGG, "Sec. 4.1"),
    ],
    "fig3": trends.misclassified(VGG, G, "Sec. 4.2"),
    "figD4": bounds_in_training("App. D.1", "caption of Fig. D.4"),
    "figD5": pair_plot(VGG),
    "figD6": [
        *pair_plot(MLP),
        Claim(
            "c5",
            "rho(C, MLS) > 0, rho(D, MLS) < 0 and rho(D, test loss) < 0",
            "caption of Fig. D.4, App. D.3",
            bounds_split,
        ),
    ],
    "figE7": perceptron(BATCH_SIZES, "caption of Fig. E.7"),
    "figE8": perceptron(LEARNING_RATES, "caption of Fig. E.8"),
}
