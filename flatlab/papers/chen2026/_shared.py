"""Claims that chen2026 and its preprint chen2024 make, or that one of them makes of many figures.

Quantities are given in the papers' words.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from flatlab.claims import Claim, Claims, Evidence
from flatlab.claims.curves import Curves, Sweep, monotonic
from flatlab.claims.evidence import Array, Pair, attempt
from flatlab.stats import Estimate, Verdict, every, not_run, theorem

QUANTITIES = {
    "sharpness": "root_sharpness",
    "MLS": "mls",
    "NMLS": "nmls",
    "log volume": "log_volume",
    "G": "g",
    "dimension": "local_dimension",
    "gap": "generalization_gap",
    "kappa": "relative_flatness",
    "MLS bound": "bound_d",
    "NMLS bound": "nmls_bound",
    "bound C": "bound_c",
    "test loss": "test_loss",
}
"""The papers' words for the quantities of the tables."""

S, VOLUME, DIMENSION = (QUANTITIES[word] for word in ("sharpness", "log volume", "dimension"))
CHAIN = {f"{a} <= {b}": (f"bound_{a.lower()}", f"bound_{b.lower()}") for a, b in pairwise("ABCD")}

MLP, VGG = "mlp-grid", "vgg-grid"
CENTRAL = {"lr": 0.1, "batch_size": 20}
LEARNING_RATES = ({**CENTRAL, "lr": 0.05}, CENTRAL, {**CENTRAL, "lr": 0.2})
BATCH_SIZES = ({**CENTRAL, "batch_size": 8}, CENTRAL, {**CENTRAL, "batch_size": 32})

STRONG = 0.5
FLAT_TREND = 0.3
PLATEAU, PLATEAU_BEGINS = 0.1, 50_000

Words = Sequence[str]


def listed(words: Words) -> str:
    """As a claim lists quantities: "MLS", or "each of MLS, NMLS"."""
    return words[0] if len(words) == 1 else f"each of {', '.join(words)}"


def pairs(x: str, others: Words) -> list[Pair]:
    """Quantity x with each of others, all of them in words."""
    return [(QUANTITIES[x], QUANTITIES[word]) for word in others]


def rise_together(grid: str, x: str, others: Words, source: str, seeds: int | None = None) -> Claim:
    """Quantity x correlates positively with each of others."""
    return Claim(
        f"rho({x}, {listed(others)}) > 0",
        source,
        lambda e: every(e.rho(grid, *pair, seeds) > 0 for pair in pairs(x, others)),
    )


def closer(
    grid: str, x: str, strong: Words, weak: Words, source: str, seeds: int | None = None
) -> Claim:
    """Quantity x correlates more strongly with each of some quantities than with each of others."""

    def judge(e: Evidence) -> Verdict:
        rhos = e.rhos(grid, *pairs(x, [*strong, *weak]), seeds=seeds)
        return every(a > b for a in rhos[: len(strong)] for b in rhos[len(strong) :])

    return Claim(f"rho({x}, {listed(strong)}) > rho({x}, {listed(weak)})", source, judge)


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

    def at_the_end(self, words: Words, source: str) -> Claim:
        """Higher learning rates lower each of the quantities, larger batches raise it."""
        rising = self.sweep is BATCH_SIZES
        what = "rises with the batch size" if rising else "falls with lr"
        names = [QUANTITIES[word] for word in words]
        return Claim(
            f"{listed(words)} at the end {what}",
            source,
            lambda e: every(monotonic(e, self.grid, self.sweep, name, rising) for name in names),
        )

    def falls(self, words: Words, source: str) -> Claim:
        """The quantities decrease during interpolation."""
        return self.each(
            f"trend({listed(words)}) < 0 in I, in each line",
            source,
            lambda c: every(c.trend(QUANTITIES[word], "I") < 0 for word in words),
        )

    def follows(self, words: Words, source: str) -> Claim:
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


def volume_falls_on_a_plateau(source: str) -> Claim:
    """At batch size 32 sharpness stops decreasing after 50,000 iterations, volume does not."""
    return Lines(VGG, BATCH_SIZES[-1:]).each(
        f"batch size 32: from iteration {PLATEAU_BEGINS:,} to the end sharpness changes by less "
        f"than {PLATEAU:.0%} and log volume falls",
        source,
        lambda c: (
            (abs(c.since(PLATEAU_BEGINS, S, relative=True)) < PLATEAU)
            & (c.since(PLATEAU_BEGINS, VOLUME) < 0)
        ),
    )


def misclassified(sensitivity: str, source: str) -> Claims:
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
    line = Lines(VGG, [CENTRAL])
    entries = enumerate(judges.items(), start=1)
    return {f"c{number}": line.each(text, source, judge) for number, (text, judge) in entries}


def theorems(pairs: Mapping[str, Pair], values: Callable[[str], Array]) -> Verdict:
    """Inequalities that hold for every value.

    pairs: text -> names of the smaller and the larger quantity.  values: name -> (runs, ...).
    """
    return attempt(
        lambda: every(theorem(text, values(a), values(b)) for text, (a, b) in pairs.items()),
        not_run,
    )


def bounds_in_training(source: str, caption: str) -> Claims:
    """About the figures of A, B, C and D of one perceptron: the seeds of lr 0.1, batch size 20."""

    def looser(c: Curves, step: str, other: str) -> Estimate:
        """How much larger one distance is than another at the end: "D-C" than "B-A"."""
        names = [f"bound_{letter.lower()}" for letter in (*step.split("-"), *other.split("-"))]
        return c.mean_of_ends(f"({step}) - ({other})", lambda a, b, x, y: (a - b) - (x - y), *names)

    line = Lines(MLP, [CENTRAL])
    return {
        "c1": line.each(
            "A <= B <= C <= D at every checkpoint of every run of lr 0.1, batch size 20",
            source,
            lambda c: theorems(CHAIN, c.values),
        ),
        "c2": line.each(
            "D - C > B - A and D - C > C - B at the end",
            caption,
            lambda c: (looser(c, "D-C", "B-A") > 0) & (looser(c, "D-C", "C-B") > 0),
        ),
    }
