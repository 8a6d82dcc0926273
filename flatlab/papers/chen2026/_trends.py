"""Claims about training curves that chen2026 and its preprint chen2024 make of several figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flatlab.claims import Claim
from flatlab.claims.curves import Curves
from flatlab.claims.sweeps import Sweep, each_line, falling, following, ordered
from flatlab.papers.chen2026._quantities import (
    BATCH_SIZES,
    CENTRAL,
    DIMENSION,
    VOLUME,
    WORDS,
    S,
    listed,
)
from flatlab.stats import Verdict

STRONG = 0.5
FLAT_TREND = 0.3
PLATEAU, PLATEAU_BEGINS = 0.1, 50_000


def at_the_end(key: str, grid: str, sweep: Sweep, names: Sequence[str], source: str) -> Claim:
    """Higher learning rates lower, larger batches raise each of the quantities."""
    rising = sweep is BATCH_SIZES
    what = "rises with the batch size" if rising else "falls with lr"
    text = f"{listed(*names)} at the end {what}"
    return Claim(key, text, source, ordered(grid, sweep, names, rising))


def in_each_line(
    key: str, text: str, source: str, grid: str, sweep: Sweep, judge: Callable[[Curves], Verdict]
) -> Claim:
    """A claim about the curves of every setting."""
    return Claim(key, f"{text}, in each line", source, each_line(grid, sweep, judge))


def falls(key: str, grid: str, sweep: Sweep, names: Sequence[str], source: str) -> Claim:
    """The quantities decrease during interpolation."""
    text = f"trend({listed(*names)}) < 0 in I, in each line"
    return Claim(key, text, source, falling(grid, sweep, names))


def follows(key: str, grid: str, sweep: Sweep, names: Sequence[str], source: str) -> Claim:
    """The quantities follow sharpness over all of training."""
    text = f"rho_t(sharpness, {listed(*names)}) > {STRONG} over training, in each line"
    return Claim(key, text, source, following(grid, sweep, S, names, STRONG))


def dimension_falls(key: str, grid: str, sweep: Sweep, source: str) -> Claim:
    """Training compresses: fewer dimensions when interpolation begins than before training."""
    text = "dimension at the start of I < at iteration 0"
    return in_each_line(key, text, source, grid, sweep, lambda c: c.since_the_start(DIMENSION) < 0)


def volume_falls_on_a_plateau(key: str, grid: str, source: str) -> Claim:
    """At batch size 32 sharpness stops decreasing after 50,000 iterations, volume does not."""

    def judge(c: Curves) -> Verdict:
        sharpness = c.since(PLATEAU_BEGINS, S, relative=True)
        return (abs(sharpness) < PLATEAU) & (c.since(PLATEAU_BEGINS, VOLUME) < 0)

    text = (
        f"batch size 32: from iteration {PLATEAU_BEGINS:,} to the end sharpness changes by less "
        f"than {PLATEAU:.0%} and log volume falls"
    )
    return Claim(key, text, source, each_line(grid, BATCH_SIZES[-1:], judge))


def volume_falls_slower(key: str, grid: str, sweep: Sweep, source: str) -> Claim:
    """After sharpness has reached a plateau volume still falls, but slower."""

    def judge(c: Curves) -> Verdict:
        return (
            (abs(c.trend(S, "last half of I")) < FLAT_TREND)
            & (c.trend(VOLUME, "last half of I") < 0)
            & (c.slowing(VOLUME) < 0)
        )

    text = (
        f"in the last half of I |trend(sharpness)| < {FLAT_TREND} and trend(log volume) < 0, "
        "with a slope below that of the first half"
    )
    return in_each_line(key, text, source, grid, sweep, judge)


def misclassified(grid: str, sensitivity: str, source: str) -> list[Claim]:
    """Test samples, and those of them that are misclassified, at lr 0.1 and batch size 20."""

    def more(name: str) -> Callable[[Curves], Verdict]:
        return lambda c: c.excess(name, "misclassified", over="test") > 0

    def follow(c: Curves) -> Verdict:
        (rho,) = c.rhos((sensitivity, S), window="training", samples="test")
        return rho > 0

    claims: dict[str, Callable[[Curves], Verdict]] = {
        "trend(sharpness on test samples) > 0 over training": (
            lambda c: c.trend(S, "training", "test") > 0
        ),
        "sharpness on misclassified samples > on test samples in I": more(S),
        f"rho_t({WORDS[sensitivity]}, sharpness) > 0 on test samples": follow,
        "trend(log volume on test samples) < 0 in I": lambda c: c.trend(VOLUME, "I", "test") < 0,
        "log volume on misclassified samples > on test samples in I": more(VOLUME),
    }
    return [
        Claim(f"c{number}", text, source, each_line(grid, [CENTRAL], judge))
        for number, (text, judge) in enumerate(claims.items(), start=1)
    ]
