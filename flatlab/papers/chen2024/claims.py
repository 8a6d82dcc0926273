"""chen2024: what the paper says of its figures.

Sharpness in the claims is sqrt(S), G the mean of |J|_F^2, C and D the bounds of MLS. The networks
are those of chen2026; pair plots show the first four seeds of the five settings.
"""

from flatlab.claims import Claims, Evidence, states
from flatlab.claims.curves import Sweep
from flatlab.papers.chen2026 import _shared as shared
from flatlab.stats import Verdict

SEEDS = 4
NEARLY_ONE = 0.9
WITH_BOUNDS = ("bound_c", "mls"), ("bound_d", "mls"), ("bound_d", "test_loss")
RATES = shared.Lines(shared.VGG, shared.LEARNING_RATES)


def perceptron(sweep: Sweep, caption: str) -> Claims:
    """The claims about both trend figures of the multilayer perceptron, E.7 and E.8."""
    lines = shared.Lines(shared.MLP, sweep)
    return {
        "c1": lines.at_the_end(("sharpness", "log volume"), caption),
        "c2": lines.follows(("G",), caption),
        "c3": lines.volume_falls_slower("Sec. 4.1"),
    }


def pair_plot(grid: str) -> Claims:
    """The claims about both pair plots, D.5 and D.6."""
    source = "App. D.2"
    text = f"rho(G, MLS) > {NEARLY_ONE} (the correlation of the root of G is reported)"

    @states(text, source)
    def nearly_one(e: Evidence) -> Verdict:
        # G is quadratic in what MLS is linear in
        rho, of_root = e.rhos(grid, ("g", "mls"), ("root_g", "mls"), seeds=SEEDS)
        return (rho > NEARLY_ONE).reporting(of_root.report())

    loss, weaker = "test loss", ("log volume", "dimension")
    return {
        "c1": nearly_one,
        "c2": shared.rise_together(grid, "log volume", ("sharpness", "MLS"), source, SEEDS),
        "c3": shared.rise_together(grid, "sharpness", (loss,), source, SEEDS),
        "c4": shared.closer(grid, loss, ("MLS",), weaker, source, SEEDS),
    }


@states(
    "rho(C, MLS) > 0, rho(D, MLS) < 0 and rho(D, test loss) < 0", "caption of Fig. D.4, App. D.3"
)
def bounds_split(e: Evidence) -> Verdict:
    c, d, d_and_loss = (e.rho(shared.MLP, *pair, SEEDS) for pair in WITH_BOUNDS)
    return (c > 0) & (d < 0) & (d_and_loss < 0)


CLAIMS: dict[str, Claims] = {
    "fig1": {
        "c1": RATES.falls(("sharpness", "log volume", "G"), "Sec. 4.1, caption of Fig. 1"),
        "c2": RATES.at_the_end(("sharpness", "log volume"), "Sec. 4.1"),
        "c3": RATES.dimension_falls("Sec. 4.3"),
    },
    "fig2": {
        "c1": shared.Lines(shared.VGG, shared.BATCH_SIZES).at_the_end(
            ("sharpness", "log volume", "G"), "caption of Fig. 2"
        ),
        "c2": shared.volume_falls_on_a_plateau("Sec. 4.1"),
    },
    "fig3": shared.misclassified("G", "Sec. 4.2"),
    "figD4": shared.bounds_in_training("App. D.1", "caption of Fig. D.4"),
    "figD5": pair_plot(shared.VGG),
    "figD6": {**pair_plot(shared.MLP), "c5": bounds_split},
    "figE7": perceptron(shared.BATCH_SIZES, "caption of Fig. E.7"),
    "figE8": perceptron(shared.LEARNING_RATES, "caption of Fig. E.8"),
}
