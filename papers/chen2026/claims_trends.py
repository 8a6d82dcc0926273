"""chen2026, Figures 2, 3, I.10, I.11 and J.12: sharpness and compression through training."""

from functools import partial
from itertools import permutations

import numpy as np

from flatlab.lab.claims.registry import Claims
from flatlab.lab.claims.result_tables import ResultTables
from flatlab.lab.tables.curves import Curves
from flatlab.lab.tables.eligibility import unless_missing
from flatlab.lab.tables.sweeps import difference_of_ends
from flatlab.papers.chen2026 import _networks as chen
from flatlab.papers.chen2026._networks import COMPRESSION, MLP, VGG, TrendFigure
from flatlab.stats.estimate import Array
from flatlab.stats.verdict import Verdict, every, not_run, some

TRENDS = Claims("chen2026")

S, VOLUME, DIMENSION = "root_sharpness", "log_volume", "local_dimension"
PLATEAU, PLATEAU_BEGINS = 0.1, 50_000

HIGHER_RATES = "Higher learning rates lead to lower sharpness and hence stronger compression"
SMALLER_BATCHES = "Smaller batch sizes lead to lower sharpness and hence stronger compression"


def prefactor_is_stable(figure: TrendFigure, key: str) -> None:
    """The bound D is a prefactor (norms) times sharpness; sharpness dominates its variation."""

    def judge(line: Curves) -> Verdict:
        def excess() -> Array:
            curves = (np.log(values) for _, values in line.seen([S, "bound_d"], "I", "train"))
            return np.array([(bound - sharp).std() - sharp.std() for sharp, bound in curves])

        label = "std over I of log(bound D / sharpness) - of log sharpness"
        return line.over_runs(label, excess) < 0

    figure.each(
        "in I the prefactor of the MLS bound varies less than sharpness (standard deviations of "
        "the logarithms), in each line",
        "Sec. 3.2",
        "for a fixed network architecture during training [...] the prefactors remain relatively "
        "stable [...] so the sharpness term dominates the variation in the bound",
        judge,
        key=key,
    )


def flatter_but_worse(claims: Claims, figure: str, *trends: TrendFigure, key: str = "") -> None:
    """In at least one of some figures a lower sharpness comes with a lower test accuracy."""

    def of_two(e: ResultTables, trend: TrendFigure) -> Verdict:
        return some(
            (difference_of_ends(a, b, S) < 0) & (difference_of_ends(a, b, "test_accuracy") < 0)
            for a, b in permutations(trend.curves(e), 2)
        )

    claims(
        figure,
        "for some two settings the one of lower sharpness has the lower test accuracy, on "
        + " or ".join(trend.grid for trend in trends),
        "Sec. 5",
        "lower sharpness does not always imply better test accuracy",
        key,
    )(lambda e: some(unless_missing(partial(of_two, e, trend), not_run) for trend in trends))


# Figure 2: learning rates -------------------------------------------------------------------------
VGG_RATES = TrendFigure(TRENDS, "fig2", VGG, chen.RATES)
VGG_RATES.at_the_end(("sharpness",), "caption of Fig. 2, Sec. 4.1", HIGHER_RATES)
VGG_RATES.at_the_end(COMPRESSION, "caption of Fig. 2", HIGHER_RATES)
VGG_RATES.falls(
    ("sharpness", *COMPRESSION),
    "Sec. 4.1",
    "when the network reaches the interpolation regime [...] the sharpness decreases with "
    "compression metrics, including MLS, NMLS, and volume",
)


def volume_is_followed_less(line: Curves) -> Verdict:
    """Sharpness and sensitivity go together more closely than sharpness and volume."""
    *more, less = line.rhos(*chen.pairs("sharpness", COMPRESSION), window="I")
    return every(rho > less for rho in more)


def dimension_is_followed_less(line: Curves) -> Verdict:
    """Sharpness says less about the dimension than about the sensitivity."""
    weak, strong = line.rhos((S, DIMENSION), (S, "mls"), window="I")
    return (strong > weak) & (strong > -weak)


VGG_RATES.each(
    "rho_t(sharpness, each of MLS, NMLS) > rho_t(sharpness, log volume) in I, in each line",
    "Sec. 4.1",
    "MLS and NMLS match better with the trend of sharpness",
    volume_is_followed_less,
)
VGG_RATES.each(
    "dimension at the start of I < at iteration 0, in each line",
    "Sec. 4.4",
    "the local dimensionality of the representation decreases as the loss decreases to near 0",
    lambda line: line.since_the_start(DIMENSION) < 0,
)
VGG_RATES.each(
    "|rho_t(sharpness, dimension)| < rho_t(sharpness, MLS) in I, in each line",
    "Sec. 4.4",
    "the local dimensionality exhibits unpredictable behavior that cannot be explained by the "
    "sharpness once the network finds an approximate interpolation solution",
    dimension_is_followed_less,
)
prefactor_is_stable(VGG_RATES, "c8")

# Figure 3: batch sizes ----------------------------------------------------------------------------
BATCHES = TrendFigure(TRENDS, "fig3", VGG, chen.BATCHES)
BATCHES.at_the_end(("sharpness",), "caption of Fig. 3", SMALLER_BATCHES)
BATCHES.at_the_end(COMPRESSION, "caption of Fig. 3", SMALLER_BATCHES)
BATCHES.falls(
    ("sharpness", *COMPRESSION),
    "Sec. 4.1",
    "The same broadly consistent trends emerged, linking a decrease in the sharpness to a "
    "compression in the neural representation",
)


def volume_falls_on_a_plateau(line: Curves, limit: float) -> Verdict:
    """At batch size 32 sharpness stops decreasing, volume does not."""
    change = line.since(PLATEAU_BEGINS, S, relative=True)
    return every([change.within(limit), line.since(PLATEAU_BEGINS, VOLUME) < 0])


BATCHES._replace(settings=chen.BATCHES[-1:]).each(
    f"batch size 32: from iteration {PLATEAU_BEGINS:,} to the end sharpness changes by less than "
    f"{PLATEAU:.0%} and log volume falls",
    "Sec. 4.1",
    "while sharpness stops decreasing after about 5 10^4 iterations for a batch size of 32, the "
    "volume continues to decrease",
    volume_falls_on_a_plateau,
    threshold=PLATEAU,
)
prefactor_is_stable(BATCHES, "c8")


# Figures I.10 and I.11: perceptrons ---------------------------------------------------------------
def volume_falls_slower(line: Curves, limit: float) -> Verdict:
    """After sharpness has reached a plateau; where there is none the claim says nothing."""
    plateau = line.change_in_last_half(S).within(limit)
    falls = (line.trend(VOLUME, "last half of I") < 0) & (line.slowing(VOLUME) < 0)
    return falls.provided(plateau, f"no plateau of sharpness is seen in {line}")


PERCEPTRON_RATES = TrendFigure(TRENDS, "figI11", MLP, chen.RATES)
for trend in (TrendFigure(TRENDS, "figI10", MLP, chen.BATCHES), PERCEPTRON_RATES):
    trend.follows(
        ("MLS", "NMLS"),
        f"caption of Fig. I.{trend.figure[-2:]}",
        "MLS/NMLS closely follows the trend of sharpness during the training",
    )
    trend.each(
        "where sharpness is on a plateau in the last half of I (it changes by less than "
        f"{PLATEAU:.0%}), trend(log volume) < 0 there, with a slope below that of the first half, "
        "in each line",
        "Sec. 4.1",
        "The volume continues to decrease after the sharpness plateaus, albeit at a much slower "
        "rate",
        volume_falls_slower,
        threshold=PLATEAU,
    )
    trend.at_the_end(
        ("sharpness",),
        "Sec. 4.1",
        "We repeated the experiments with an MLP trained on the FashionMNIST dataset",
    )
    flatter_but_worse(TRENDS, trend.figure, trend)
    prefactor_is_stable(trend, "c5")


# Figure J.12: test samples, and the misclassified ones among them ---------------------------------
def sharpness_rises(line: Curves) -> Verdict:
    """After interpolation began: before, sharpness rises on training samples as well.

    The trends over all of training are reported and not judged.
    """
    others = [line.trend(S, "training", samples) for samples in ("test", "train")]
    return (line.trend(S, "I", "test") > 0).reporting(*(other.report() for other in others))


def follows_on_test_samples(figure: TrendFigure, word: str, source: str) -> None:
    """Sensitivity goes with sharpness on test samples, too."""
    pair = chen.QUANTITIES[word], S
    figure.each(
        f"rho_t({word}, sharpness) > 0 on test samples in I",
        source,
        f"Again we see that {word} has the same trend as the sharpness",
        lambda line: line.rhos(pair, window="I", samples="test")[0] > 0,
    )


TEST_SAMPLES = TrendFigure(TRENDS, "figJ12", VGG, [chen.CENTRAL])
TEST_SAMPLES.each(
    "trend(sharpness on test samples) > 0 in I",
    "App. J",
    "this sharpness increased rather than diminished as a result of training",
    sharpness_rises,
)
TEST_SAMPLES.each(
    "sharpness on misclassified samples > on test samples, mean over I",
    "App. J",
    "the sharpness of misclassified test data was even greater than that of all test data",
    lambda line: line.excess(S, "misclassified", over="test") > 0,
)
follows_on_test_samples(TEST_SAMPLES, "MLS", "App. J")
TEST_SAMPLES.each(
    "trend(log volume on test samples) < 0 in I",
    "App. J",
    "Despite this increase in sharpness, the volume followed the same pattern as the training set",
    lambda line: line.trend(VOLUME, "I", "test") < 0,
)
TEST_SAMPLES.each(
    "log volume on misclassified samples > on test samples, mean over I",
    "App. J",
    "the compression still is weaker for misclassified test samples",
    lambda line: line.excess(VOLUME, "misclassified", over="test") > 0,
)
