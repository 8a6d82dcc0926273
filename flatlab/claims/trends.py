"""Claims about training curves and about how they depend on a hyper-parameter.

`dec` and `inc` are of Q, the mean over seeds at the end of training: each step from a setting to
the next has the sign, and so has tau-a over the runs. In "each line" a claim is made of every
setting of the figure, and holds if it holds in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, permutations

import numpy as np

from flatlab.claims import Claim, Evidence
from flatlab.claims.curves import Curves, NotThere, Setting
from flatlab.claims.quantities import (
    BATCH_SIZES,
    CENTRAL,
    DIMENSION,
    MLS,
    TEST_ACCURACY,
    VOLUME,
    WORDS,
    S,
    listed,
)
from flatlab.stats import Estimate, Verdict, every, some, undefined
from flatlab.stats.trends import difference, tau

Sweep = Sequence[Setting]
STRONG = 0.5
FLAT_TREND = 0.3
PLATEAU, PLATEAU_BEGINS = 0.1, 50_000


def difference_of_ends(a: Curves, b: Curves, name: str) -> Estimate:
    """Q(b) - Q(a)."""
    label = f"Q({name}; {b.setting}) - Q({name}; {a.setting}); {a.grid}"
    try:
        return difference(label, b.ends(name)[0], a.ends(name)[0])
    except NotThere as missing:
        return undefined(label, str(missing))


def tau_along(e: Evidence, grid: str, sweep: Sweep, name: str) -> Estimate:
    """Kendall's tau-a between the hyper-parameter and end(q), over the runs of a sweep."""
    varied = "batch size" if len({s.batch_size for s in sweep}) > 1 else "lr"
    label = f"tau-a({varied}, {name}); {grid}"
    try:
        ends = [e.curves(grid, setting).ends(name)[0] for setting in sweep]
    except NotThere as missing:
        return undefined(label, str(missing))
    strata = np.repeat(np.arange(len(sweep)), [len(values) for values in ends])
    return tau(label, strata.astype(float), np.concatenate(ends), strata)


def monotonic(e: Evidence, grid: str, sweep: Sweep, name: str, rising: bool) -> Verdict:
    """inc(q; x) or dec(q; x) along the settings of a sweep, which are in order."""
    steps = [
        difference_of_ends(e.curves(grid, a), e.curves(grid, b), name) for a, b in pairwise(sweep)
    ]
    estimates = [*steps, tau_along(e, grid, sweep, name)]
    return every((x > 0) if rising else (x < 0) for x in estimates)


def ordered(key: str, grid: str, sweep: Sweep, names: Sequence[str], source: str) -> Claim:
    """Higher learning rates lower, larger batches raise each of the quantities."""
    rising = sweep is BATCH_SIZES
    what = "rises with the batch size" if rising else "falls with lr"

    def judge(e: Evidence) -> Verdict:
        return every(monotonic(e, grid, sweep, name, rising) for name in names)

    return Claim(key, f"{listed(*names)} at the end {what}", source, judge)


def each_line(
    key: str, text: str, source: str, grid: str, sweep: Sweep, judge: Callable[[Curves], Verdict]
) -> Claim:
    """A claim about the curves of every setting."""
    return Claim(
        key,
        f"{text}, in each line",
        source,
        lambda e: every(judge(e.curves(grid, setting)) for setting in sweep),
    )


def falling(key: str, grid: str, sweep: Sweep, names: Sequence[str], source: str) -> Claim:
    """The quantities decrease during interpolation."""
    return each_line(
        key,
        f"trend({listed(*names)}) < 0 in I",
        source,
        grid,
        sweep,
        lambda c: every(c.trend(name, "I") < 0 for name in names),
    )


def follows(key: str, grid: str, sweep: Sweep, names: Sequence[str], source: str) -> Claim:
    """The quantities follow sharpness over all of training."""
    return each_line(
        key,
        f"rho_t(sharpness, {listed(*names)}) > {STRONG} over training",
        source,
        grid,
        sweep,
        lambda c: every(
            rho > STRONG for rho in c.rhos(*((S, name) for name in names), window="training")
        ),
    )


def volume_is_followed_less(key: str, grid: str, sweep: Sweep, names: Sequence[str]) -> Claim:
    """Sharpness and sensitivity go together more closely than sharpness and volume."""

    def judge(c: Curves) -> Verdict:
        *more, less = c.rhos(*((S, name) for name in (*names, VOLUME)), window="I")
        return every(rho > less for rho in more)

    text = f"rho_t(sharpness, {listed(*names)}) > rho_t(sharpness, log volume) in I"
    return each_line(key, text, "Sec. 4.1", grid, sweep, judge)


def dimension_falls(key: str, grid: str, sweep: Sweep, source: str) -> Claim:
    """Training compresses: fewer dimensions when interpolation begins than before training."""
    return each_line(
        key,
        "dimension at the start of I < at iteration 0",
        source,
        grid,
        sweep,
        lambda c: c.since_the_start(DIMENSION) < 0,
    )


def dimension_is_followed_less(key: str, grid: str, sweep: Sweep, source: str) -> Claim:
    """Sharpness says less of the dimension than of the sensitivity."""

    def judge(c: Curves) -> Verdict:
        weak, strong = c.rhos((S, DIMENSION), (S, MLS), window="I")
        return abs(weak) < strong

    text = "|rho_t(sharpness, dimension)| < rho_t(sharpness, MLS) in I"
    return each_line(key, text, source, grid, sweep, judge)


def volume_falls_on_a_plateau(key: str, grid: str, source: str) -> Claim:
    """At batch size 32 sharpness stops decreasing after 50,000 iterations, volume does not."""

    def judge(e: Evidence) -> Verdict:
        curves = e.curves(grid, BATCH_SIZES[-1])
        sharpness = curves.since(PLATEAU_BEGINS, S, relative=True)
        return (abs(sharpness) < PLATEAU) & (curves.since(PLATEAU_BEGINS, VOLUME) < 0)

    text = (
        f"batch size 32: from iteration {PLATEAU_BEGINS:,} to the end sharpness changes by less "
        f"than {PLATEAU:.0%} and log volume falls"
    )
    return Claim(key, text, source, judge)


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
    return each_line(key, text, source, grid, sweep, judge)


def not_always_better(key: str, grids: Sequence[tuple[str, Sweep]], source: str) -> Claim:
    """Larger learning rates do not uniformly give better test accuracy."""

    def judge(e: Evidence) -> Verdict:
        return some(~monotonic(e, grid, sweep, TEST_ACCURACY, True) for grid, sweep in grids)

    where = " or ".join(grid for grid, _ in grids)
    return Claim(key, f"test accuracy at the end does not rise with lr, on {where}", source, judge)


def flatter_but_worse(key: str, grid: str, sweep: Sweep, source: str) -> Claim:
    """Lower sharpness does not always come with higher test accuracy."""

    def judge(e: Evidence) -> Verdict:
        pairs = permutations([e.curves(grid, setting) for setting in sweep], 2)
        return some(
            (difference_of_ends(a, b, S) < 0) & (difference_of_ends(a, b, TEST_ACCURACY) < 0)
            for a, b in pairs
        )

    text = "of some two settings the one of lower sharpness has the lower test accuracy"
    return Claim(key, text, source, judge)


def misclassified(grid: str, sensitivity: str, source: str) -> list[Claim]:
    """Test samples, and those of them that are misclassified, at lr 0.1 and batch size 20."""

    def claim(key: str, text: str, judge: Callable[[Curves], Verdict]) -> Claim:
        return Claim(key, text, source, lambda e: judge(e.curves(grid, CENTRAL)))

    def more(name: str) -> Callable[[Curves], Verdict]:
        return lambda c: c.excess(name, "misclassified", over="test") > 0

    def follow(c: Curves) -> Verdict:
        (rho,) = c.rhos((sensitivity, S), window="training", samples="test")
        return rho > 0

    return [
        claim(
            "c1",
            "trend(sharpness on test samples) > 0 over training",
            lambda c: c.trend(S, "training", "test") > 0,
        ),
        claim("c2", "sharpness on misclassified samples > on test samples in I", more(S)),
        claim("c3", f"rho_t({WORDS[sensitivity]}, sharpness) > 0 on test samples", follow),
        claim(
            "c4",
            "trend(log volume on test samples) < 0 in I",
            lambda c: c.trend(VOLUME, "I", "test") < 0,
        ),
        claim("c5", "log volume on misclassified samples > on test samples in I", more(VOLUME)),
    ]
