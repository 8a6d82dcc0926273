"""Claims about training curves that chen2026 and its preprint chen2024 make about several figures.

Quantities are given in the papers' words.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from flatlab.claims import Claim, Claims
from flatlab.claims.curves import Curves, Sweep, monotonic
from flatlab.papers.chen2026._quantities import BATCH_SIZES, CENTRAL, QUANTITIES, listed, pairs
from flatlab.stats import Verdict, every

STRONG = 0.5
FLAT_TREND = 0.3
PLATEAU, PLATEAU_BEGINS = 0.1, 50_000
S, VOLUME, DIMENSION = (QUANTITIES[word] for word in ("sharpness", "log volume", "dimension"))


class Lines(NamedTuple):
    """The lines of a trend figure: the settings of a sweep on one grid."""

    grid: str
    sweep: Sweep

    def each(self, text: str, source: str, judge: Callable[[Curves], Verdict]) -> Claim:
        """A claim about the curves of every setting, which holds if it holds in all of them."""
        return Claim(
            text,
            source,
            lambda e: every(judge(Curves(e, self.grid, setting)) for setting in self.sweep),
        )

    def at_the_end(self, words: Sequence[str], source: str) -> Claim:
        """Higher learning rates lower each of the quantities, larger batches raise it."""
        rising = self.sweep is BATCH_SIZES
        what = "rises with the batch size" if rising else "falls with lr"
        names = [QUANTITIES[word] for word in words]
        return Claim(
            f"{listed(words)} at the end {what}",
            source,
            lambda e: every(monotonic(e, self.grid, self.sweep, name, rising) for name in names),
        )

    def falls(self, words: Sequence[str], source: str) -> Claim:
        """The quantities decrease during interpolation."""
        return self.each(
            f"trend({listed(words)}) < 0 in I, in each line",
            source,
            lambda c: every(c.trend(QUANTITIES[word], "I") < 0 for word in words),
        )

    def follows(self, words: Sequence[str], source: str) -> Claim:
        """The quantities follow sharpness over all of training."""
        compared = pairs("sharpness", words)
        return self.each(
            f"rho_t(sharpness, {listed(words)}) > {STRONG} over training, in each line",
            source,
            lambda c: every(rho > STRONG for rho in c.rhos(*compared, window="training")),
        )

    def dimension_falls(self, source: str) -> Claim:
        """Training compresses: fewer dimensions when interpolation begins than before training."""
        text = "dimension at the start of I < at iteration 0, in each line"
        return self.each(text, source, lambda c: c.since_the_start(DIMENSION) < 0)

    def volume_falls_slower(self, source: str) -> Claim:
        """After sharpness has reached a plateau volume still falls, but more slowly."""
        return self.each(
            f"in the last half of I |trend(sharpness)| < {FLAT_TREND} and trend(log volume) < 0, "
            "with a slope below that of the first half, in each line",
            source,
            lambda c: (
                (abs(c.trend(S, "last half of I")) < FLAT_TREND)
                & (c.trend(VOLUME, "last half of I") < 0)
                & (c.slowing(VOLUME) < 0)
            ),
        )


def volume_falls_on_a_plateau(grid: str, source: str) -> Claim:
    """At batch size 32 sharpness stops decreasing after 50,000 iterations, volume does not."""
    return Lines(grid, BATCH_SIZES[-1:]).each(
        f"batch size 32: from iteration {PLATEAU_BEGINS:,} to the end sharpness changes by less "
        f"than {PLATEAU:.0%} and log volume falls",
        source,
        lambda c: (
            (abs(c.since(PLATEAU_BEGINS, S, relative=True)) < PLATEAU)
            & (c.since(PLATEAU_BEGINS, VOLUME) < 0)
        ),
    )


def misclassified(grid: str, sensitivity: str, source: str) -> Claims:
    """Test samples, and the misclassified ones among them, at lr 0.1 and batch size 20."""
    (pair,) = pairs(sensitivity, ["sharpness"])
    judges: dict[str, Callable[[Curves], Verdict]] = {
        "trend(sharpness on test samples) > 0 over training": (
            lambda c: c.trend(S, "training", "test") > 0
        ),
        "sharpness on misclassified samples > on test samples in I": (
            lambda c: c.excess(S, "misclassified", over="test") > 0
        ),
        f"rho_t({sensitivity}, sharpness) > 0 on test samples": (
            lambda c: c.rhos(pair, window="training", samples="test")[0] > 0
        ),
        "trend(log volume on test samples) < 0 in I": lambda c: c.trend(VOLUME, "I", "test") < 0,
        "log volume on misclassified samples > on test samples in I": (
            lambda c: c.excess(VOLUME, "misclassified", over="test") > 0
        ),
    }
    line = Lines(grid, [CENTRAL])
    return {
        f"c{number}": line.each(text, source, judge)
        for number, (text, judge) in enumerate(judges.items(), start=1)
    }
