"""Claims that chen2026 and its preprint chen2024 make, or that one of them makes of many figures.

Quantities are given in the papers' words.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from flatlab.claims import Claim, Evidence, FigureClaims
from flatlab.claims.curves import Curves, Sweep, differences_at_equal_epochs, monotonic
from flatlab.claims.evidence import Array, Pair
from flatlab.stats import Verdict, every

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

MLP, VGG = "mlp-grid", "vgg-grid"
CENTRAL = {"lr": 0.1, "batch_size": 20}
LEARNING_RATES = ({**CENTRAL, "lr": 0.05}, CENTRAL, {**CENTRAL, "lr": 0.2})
BATCH_SIZES = ({**CENTRAL, "batch_size": 8}, CENTRAL, {**CENTRAL, "batch_size": 32})
SETTINGS = (*LEARNING_RATES, BATCH_SIZES[0], BATCH_SIZES[-1])

STRONG = 0.5
"""How far from 1 a strong correlation may be."""

PLATEAU, PLATEAU_BEGINS = 0.1, 50_000

Words = Sequence[str]


def listed(words: Words) -> str:
    """As a claim lists quantities: "MLS", or "each of MLS, NMLS"."""
    return words[0] if len(words) == 1 else f"each of {', '.join(words)}"


def pairs(x: str, others: Words) -> list[Pair]:
    """Quantity x with each of others, all of them in words."""
    return [(QUANTITIES[x], QUANTITIES[word]) for word in others]


def rise_together(
    grid: str, x: str, others: Words, source: str, seeds: int | None = None, **about: Any
) -> Claim:
    """Quantity x correlates positively with each of others."""
    return Claim(
        f"rho({x}, {listed(others)}) > 0",
        source,
        lambda e: every(rho > 0 for rho in e.rhos(grid, *pairs(x, others), seeds=seeds)),
        **about,
    )


def closer(
    grid: str,
    x: str,
    strong: Words,
    weak: Words,
    source: str,
    seeds: int | None = None,
    **about: Any,
) -> Claim:
    """Quantity x correlates more strongly with each of some quantities than with each of others."""

    def judge(e: Evidence) -> Verdict:
        rhos = e.rhos(grid, *pairs(x, [*strong, *weak]), seeds=seeds)
        return every(a > b for a in rhos[: len(strong)] for b in rhos[len(strong) :])

    text = f"rho({x}, {listed(strong)}) > rho({x}, {listed(weak)})"
    return Claim(text, source, judge, **about)


class Lines(NamedTuple):
    """The lines of a trend figure: the settings of a sweep on one grid."""

    grid: str
    sweep: Sweep

    def each(self, text: str, source: str, judge: Callable[..., Verdict], **about: Any) -> Claim:
        """A claim about the curves of every setting, which holds if it holds in all of them.

        judge: of `Curves` and, if there is one, of the claim's threshold.
        """

        def predicate(e: Evidence, *threshold: float) -> Verdict:
            return every(judge(Curves(e, self.grid, s), *threshold) for s in self.sweep)

        return Claim(text, source, predicate, **about)

    def at_the_end(self, words: Words, source: str, quote: str) -> Claim:
        """Higher learning rates lower each of the quantities, larger batches raise it.

        Batch sizes are compared after equally many iterations, as in the paper; the differences
        after equally many epochs are reported beside it.
        """
        rising = self.sweep is BATCH_SIZES
        what = "rises with the batch size" if rising else "falls with lr"
        names = [QUANTITIES[word] for word in words]

        def judge(e: Evidence) -> Verdict:
            here = e, self.grid, self.sweep
            verdict = every(monotonic(*here, name, rising) for name in names)
            if rising:  # small batches have seen fewer samples after equally many iterations
                beside = (differences_at_equal_epochs(*here, name) for name in names)
                return verdict.reporting(*(each.report() for each in chain(*beside)))
            return verdict

        return Claim(f"{listed(words)} at the end {what}, at each step", source, judge, quote=quote)

    def falls(self, words: Words, source: str, quote: str) -> Claim:
        """The quantities decrease during interpolation."""
        return self.each(
            f"trend({listed(words)}) < 0 in I, in each line",
            source,
            lambda c: every(c.trend(QUANTITIES[word], "I") < 0 for word in words),
            quote=quote,
        )

    def follows(self, words: Words, source: str, quote: str) -> Claim:
        """The quantities follow sharpness in interpolation.

        Over all of training everything rises from initialization together, the more so as the
        checkpoints are dense there: those correlations are reported and not judged.
        """
        compared = pairs("sharpness", words)

        def judge(c: Curves, distance: float) -> Verdict:
            inside = every(rho > 1 - distance for rho in c.rhos(*compared, window="I"))
            return inside.reporting(*(r.report() for r in c.rhos(*compared, window="training")))

        text = f"rho_t(sharpness, {listed(words)}) > 1 - {STRONG} in I, in each line"
        return self.each(text, source, judge, quote=quote, threshold=STRONG)

    def dimension_falls(self, source: str, quote: str, repeats: str = "") -> Claim:
        """Training compresses: fewer dimensions when interpolation begins than before training."""
        return self.each(
            "dimension at the start of I < at iteration 0, in each line",
            source,
            lambda c: c.since_the_start(DIMENSION) < 0,
            quote=quote,
            repeats=repeats,
        )

    def volume_falls_slower(self, quote: str, repeats: str = "") -> Claim:
        """After sharpness has reached a plateau volume still falls, but more slowly.

        Where there is no plateau the claim says nothing.
        """

        def judge(c: Curves, threshold: float) -> Verdict:
            change = c.change_in_last_half(S)
            falls = (c.trend(VOLUME, "last half of I") < 0) & (c.slowing(VOLUME) < 0)
            return falls.provided(
                change.within(threshold), f"no plateau of sharpness is seen in {c}"
            )

        return self.each(
            "where sharpness is on a plateau in the last half of I (it changes by less than "
            f"{PLATEAU:.0%}), trend(log volume) < 0 there, with a slope below that of the first "
            "half, in each line",
            "Sec. 4.1",
            judge,
            quote=quote,
            repeats=repeats,
            threshold=PLATEAU,
        )

    def prefactor_is_stable(self) -> Claim:
        """The bound D is a prefactor (norms) times sharpness; sharpness dominates its variation."""

        def varies_less(c: Curves) -> Verdict:
            def excess() -> Array:
                curves = (np.log(values) for _, values in c.seen([S, "bound_d"], "I", "train"))
                return np.array([(bound - sharp).std() - sharp.std() for sharp, bound in curves])

            return (
                c.over_runs("std over I of log(bound D / sharpness) - of log sharpness", excess) < 0
            )

        return self.each(
            "in I the prefactor of the MLS bound varies less than sharpness (standard deviations "
            "of the logarithms), in each line",
            "Sec. 3.2",
            varies_less,
            quote="for a fixed network architecture during training [...] the prefactors remain "
            "relatively stable [...] so the sharpness term dominates the variation in the bound",
        )


def volume_falls_on_a_plateau(quote: str, repeats: str = "") -> Claim:
    """At batch size 32 sharpness stops decreasing after 50,000 iterations, volume does not."""

    def judge(c: Curves, threshold: float) -> Verdict:
        change = c.since(PLATEAU_BEGINS, S, relative=True)
        return every([change.within(threshold), c.since(PLATEAU_BEGINS, VOLUME) < 0])

    return Lines(VGG, BATCH_SIZES[-1:]).each(
        f"batch size 32: from iteration {PLATEAU_BEGINS:,} to the end sharpness changes by less "
        f"than {PLATEAU:.0%} and log volume falls",
        "Sec. 4.1",
        judge,
        quote=quote,
        repeats=repeats,
        threshold=PLATEAU,
    )


def misclassified(sensitivity: str, source: str, repeats: str = "") -> FigureClaims:
    """Test samples, and the misclassified ones among them, at lr 0.1 and batch size 20.

    Trends are those after interpolation began: before, sharpness rises from initialization on
    training samples as well. The trends over all of training are reported and not judged.
    """
    (pair,) = pairs(sensitivity, ["sharpness"])

    def rises(c: Curves) -> Verdict:
        others = [c.trend(S, "training", on) for on in ("test", "train")]
        return (c.trend(S, "I", "test") > 0).reporting(*(other.report() for other in others))

    judges: list[tuple[str, str, Callable[[Curves], Verdict]]] = [
        (
            "trend(sharpness on test samples) > 0 in I",
            "this sharpness increased rather than diminished as a result of training",
            rises,
        ),
        (
            "sharpness on misclassified samples > on test samples, mean over I",
            "the sharpness of misclassified test data was even greater than that of all test data",
            lambda c: c.excess(S, "misclassified", over="test") > 0,
        ),
        (
            f"rho_t({sensitivity}, sharpness) > 0 on test samples in I",
            f"Again we see that {sensitivity} has the same trend as the sharpness",
            lambda c: c.rhos(pair, window="I", samples="test")[0] > 0,
        ),
        (
            "trend(log volume on test samples) < 0 in I",
            "Despite this increase in sharpness, the volume followed the same pattern as the "
            "training set",
            lambda c: c.trend(VOLUME, "I", "test") < 0,
        ),
        (
            "log volume on misclassified samples > on test samples, mean over I",
            "the compression still is weaker for misclassified test samples",
            lambda c: c.excess(VOLUME, "misclassified", over="test") > 0,
        ),
    ]
    line = Lines(VGG, [CENTRAL])
    return {
        f"c{number}": line.each(
            text,
            source,
            judge,
            quote=quote,
            repeats=f"{repeats}/c{number}" if repeats and number != 3 else "",
        )
        for number, (text, quote, judge) in enumerate(judges, start=1)
    }
