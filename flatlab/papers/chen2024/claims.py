"""chen2024: what the paper says of its figures.

Sharpness in the claims is sqrt(S), G the mean of |J|_F^2, C and D the bounds of MLS. The networks
are those of chen2026; pair plots show the first four seeds of the five settings.
"""

from flatlab.claims import Evidence, FigureClaims, states
from flatlab.claims.curves import Sweep
from flatlab.papers.chen2026 import _shared as shared
from flatlab.papers.chen2026._bounds import in_training
from flatlab.stats import Verdict, every

SEEDS = 4
NEARLY = 0.1
"""How far from 1 a correlation that is nearly 1 may be."""

WITH_BOUNDS = ("bound_c", "mls"), ("bound_d", "mls"), ("bound_d", "test_loss")
RATES = shared.Lines(shared.VGG, shared.LEARNING_RATES)


def perceptron(sweep: Sweep, caption: str, quote: str, repeats: str) -> FigureClaims:
    """The claims about both trend figures of the multilayer perceptron, E.7 and E.8.

    quote: what the caption says of the end of training.
    """
    lines = shared.Lines(shared.MLP, sweep)
    return {
        "c1": lines.at_the_end(("sharpness", "log volume"), caption, quote),
        "c2": lines.follows(
            ("G",), caption, "G closely follows the trend of sharpness during the training"
        ),
        "c3": lines.volume_falls_slower(
            "The volume continues to decrease after the sharpness plateaus, albeit at a much "
            "slower rate",
            repeats=repeats,
        ),
    }


def pair_plot(grid: str, same: str) -> FigureClaims:
    """The claims about both pair plots, D.5 and D.6.  same: the pair plot of all seeds."""
    source = "App. D.2"

    @states(
        f"rho(G, MLS) > 1 - {NEARLY} (the correlation of the root of G is reported)",
        source,
        quote="G and MLS are highly correlated and can be almost seen as the same quantity, scaled",
        threshold=NEARLY,
    )
    def nearly_one(e: Evidence, distance: float) -> Verdict:
        # G is quadratic in what MLS is linear in
        rho, of_root = e.rhos(grid, ("g", "mls"), ("root_g", "mls"), seeds=SEEDS)
        return (rho > 1 - distance).reporting(of_root.report())

    loss, weaker = "test loss", ("log volume", "dimension")
    return {
        "c1": nearly_one,
        "c2": shared.rise_together(
            *(grid, "log volume", ("sharpness", "MLS"), source, SEEDS),
            quote="Although the bound in Eq. 12 is loose, log volume correlates well with "
            "sharpness and MLS",
            repeats=f"{same}/c3",
        ),
        "c3": shared.rise_together(
            *(grid, "sharpness", (loss,), source, SEEDS),
            quote="Sharpness is positively correlated with the test loss",
        ),
        "c4": shared.closer(
            *(grid, loss, ("MLS",), weaker, source, SEEDS),
            quote="MLS improves the correlation with the test loss over log volume and local "
            "dimensionality",
        ),
    }


@states(
    "rho(C, MLS) > 0, rho(D, MLS) < 0 and rho(D, test loss) < 0",
    "caption of Fig. D.4, App. D.3",
    quote="bound C is positively correlated with MLS while bound D, perhaps surprisingly, is "
    "negatively correlated with MLS [...] can even be negatively correlated with MLS and test loss",
)
def bounds_split(e: Evidence) -> Verdict:
    c, d, d_and_loss = e.rhos(shared.MLP, *WITH_BOUNDS, seeds=SEEDS)
    return every([c > 0, d < 0, d_and_loss < 0])


CLAIMS: dict[str, FigureClaims] = {
    "fig1": {
        "c1": RATES.falls(
            ("sharpness", "log volume", "G"),
            "Sec. 4.1, caption of Fig. 1",
            "when the network reaches the interpolation regime, and the sharpness decreases, so "
            "does the volume. Similarly, the quantity G decreases",
        ),
        "c2": RATES.at_the_end(
            ("sharpness", "log volume"),
            "Sec. 4.1",
            "for learning rates that yielded lower values of sharpness, volume was lower as well",
        ),
        "c3": RATES.dimension_falls(
            "Sec. 4.3",
            "the local dimensionality of the representation decreases as the loss decreases to "
            "near 0",
            repeats="chen2026_fig2/c5",
        ),
    },
    "fig2": {
        "c1": shared.Lines(shared.VGG, shared.BATCH_SIZES).at_the_end(
            ("sharpness", "log volume", "G"),
            "caption of Fig. 2",
            "lower batch sizes lead to lower sharpness and hence stronger compression",
        ),
        "c2": shared.volume_falls_on_a_plateau(
            "while sharpness stops decreasing after about [...] iterations for a batch size of "
            "32, the volume continues to decrease",
            repeats="chen2026_fig3/c4",
        ),
    },
    "fig3": shared.misclassified("G", "Sec. 4.2", repeats="chen2026_figJ12"),
    "figD4": in_training("caption of Fig. D.4", "chen2026_figH6"),
    "figD5": pair_plot(shared.VGG, "chen2026_figH7"),
    "figD6": {**pair_plot(shared.MLP, "chen2026_figH8"), "c5": bounds_split},
    "figE7": perceptron(
        shared.BATCH_SIZES,
        "caption of Fig. E.7",
        "After minimizing the loss, lower batch sizes lead to lower sharpness and stronger "
        "compression",
        "chen2026_figI10/c2",
    ),
    "figE8": perceptron(
        shared.LEARNING_RATES,
        "caption of Fig. E.8",
        "After the loss is minimized, higher learning rates lead to lower sharpness and hence "
        "stronger compression",
        "chen2026_figI11/c2",
    ),
}
