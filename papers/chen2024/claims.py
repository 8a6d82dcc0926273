"""chen2024: what the paper says of its figures.

Sharpness in the claims is sqrt(S), G the mean of |J|_F^2, C and D the bounds of MLS. The networks
are those of chen2026; pair plots show the first four seeds of the five settings.
"""

from flatlab.lab.claims import Claims
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.chen2026 import claims_trends as chen
from flatlab.papers.chen2026.claims import CLAIMS as OF_2026
from flatlab.papers.chen2026.claims_trends import MLP, VGG, PairPlot, TrendFigure
from flatlab.papers.chen2026.readings import READINGS
from flatlab.stats.verdict import Verdict, every

CLAIMS = Claims("chen2024", READINGS)

SEEDS = 4
NEARLY = 0.1
"""How far from 1 a correlation that is nearly 1 may be."""

SHARPNESS_AND_VOLUME = ("sharpness", "log volume")

LOOSE = "Although the bound in Eq. 12 is loose, log volume correlates well with sharpness and MLS"
TEST_LOSS = "Sharpness is positively correlated with the test loss"
IMPROVES = (
    "MLS improves the correlation with the test loss over log volume and local dimensionality"
)
FOLLOWS = "G closely follows the trend of sharpness during the training"
AFTER = (
    "while sharpness stops decreasing after about [...] iterations for a batch size of 32, the "
    "volume continues to decrease"
)
AT_THE_END = {
    "figE7": "After minimizing the loss, lower batch sizes lead to lower sharpness and stronger "
    "compression",
    "figE8": "After the loss is minimized, higher learning rates lead to lower sharpness and hence "
    "stronger compression",
}

# Figures 1 to 3: VGG networks in training ---------------------------------------------------------
rates = TrendFigure(CLAIMS, "fig1", VGG, chen.RATES)
rates.falls(
    (*SHARPNESS_AND_VOLUME, "G"),
    "Sec. 4.1, caption of Fig. 1",
    "when the network reaches the interpolation regime, and the sharpness decreases, so does the "
    "volume. Similarly, the quantity G decreases",
)
rates.at_the_end(
    SHARPNESS_AND_VOLUME,
    "Sec. 4.1",
    "for learning rates that yielded lower values of sharpness, volume was lower as well",
)
CLAIMS.repeat("fig1", "fig2", "c5", claims=OF_2026, source="Sec. 4.3")

TrendFigure(CLAIMS, "fig2", VGG, chen.BATCHES).at_the_end(
    (*SHARPNESS_AND_VOLUME, "G"),
    "caption of Fig. 2",
    "lower batch sizes lead to lower sharpness and hence stronger compression",
)
CLAIMS.repeat("fig2", "fig3", "c4", claims=OF_2026, quote=AFTER)

CLAIMS.repeat("fig3", "figJ12", "c1", "c2", claims=OF_2026, source="Sec. 4.2")
chen.follows_on_test_samples(TrendFigure(CLAIMS, "fig3", VGG, [chen.CENTRAL]), "G", "Sec. 4.2")
CLAIMS.repeat("fig3", "figJ12", "c4", "c5", claims=OF_2026, source="Sec. 4.2")

# Figure D.4: bounds of perceptrons ----------------------------------------------------------------
CLAIMS.repeat("figD4", "figH6", claims=OF_2026, source="caption of Fig. D.4")


# Figures D.5 and D.6: correlations between networks -----------------------------------------------
def pair_plot(plot: PairPlot, same: str) -> None:
    """The claims about both pair plots.  same: the pair plot of all seeds."""

    def nearly_one(e: ResultTables, distance: float) -> Verdict:
        # G is quadratic in what MLS is linear in
        rho, of_root = plot.rhos(e, ("g", "mls"), ("root g", "mls"))
        return (rho > 1 - distance).reporting(of_root.report())

    CLAIMS(
        plot.figure,
        f"rho(G, MLS) > 1 - {NEARLY} (the correlation of the root of G is reported)",
        "App. D.2",
        "G and MLS are highly correlated and can be almost seen as the same quantity, scaled",
        threshold=NEARLY,
    )(nearly_one)
    repeats = f"chen2026_{same}/c3"
    plot.above("log volume", ("sharpness", "MLS"), "App. D.2", LOOSE, chen.WELL, repeats=repeats)
    plot.above("sharpness", ("test loss",), "App. D.2", TEST_LOSS)
    plot.closer("test loss", ("MLS",), ("log volume", "dimension"), "App. D.2", IMPROVES)
    words = ("sharpness", "log volume", "MLS")

    @plot.says(
        "rho(test loss, each of sharpness, log volume, MLS) > 0, and < rho(sharpness, each of MLS, "
        "log volume)",
        "Sec. 1",
        "The paper finds that sharpness, volume compression, and MLS are also correlated, if more "
        "weakly, with test loss",
        key="c6",
        under=("volume",),
    )
    def _(e: ResultTables, volume: str) -> Verdict:
        wanted = [*chen.pairs("test loss", words), *chen.pairs("sharpness", words[1:])]
        rhos = plot.rhos(e, *wanted, volume=volume)
        weak, strong = rhos[: len(words)], rhos[len(words) :]
        parts = [rho > 0 for rho in weak]
        return every([*parts, *(more > less for more in strong for less in weak)])


of_perceptrons = PairPlot(CLAIMS, "figD6", MLP, SEEDS)
pair_plot(PairPlot(CLAIMS, "figD5", VGG, SEEDS), "figH7")
pair_plot(of_perceptrons, "figH8")


@CLAIMS(
    "figD6",
    "rho(C, MLS) > 0, rho(D, MLS) < 0 and rho(D, test loss) < 0",
    "caption of Fig. D.4, App. D.3",
    "bound C is positively correlated with MLS while bound D, perhaps surprisingly, is negatively "
    "correlated with MLS [...] can even be negatively correlated with MLS and test loss",
    "c5",
)
def _(e: ResultTables) -> Verdict:
    with_bounds = ("bound_c", "mls"), ("bound_d", "mls"), ("bound_d", "test_loss")
    c, d, d_and_loss = of_perceptrons.rhos(e, *with_bounds)
    return every([c > 0, d < 0, d_and_loss < 0])


# Figures E.7 and E.8: perceptrons in training -----------------------------------------------------
for figure, settings, same in (("figE7", chen.BATCHES, "figI10"), ("figE8", chen.RATES, "figI11")):
    trend, caption = TrendFigure(CLAIMS, figure, MLP, settings), f"caption of Fig. E.{figure[-1]}"
    trend.at_the_end(SHARPNESS_AND_VOLUME, caption, AT_THE_END[figure])
    trend.follows(("G",), caption, FOLLOWS)
    CLAIMS.repeat(figure, same, "c2", claims=OF_2026)
