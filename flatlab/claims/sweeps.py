"""Judges of training curves, and of how they depend on a hyper-parameter.

`falls` and `rises` are of Q, the mean over seeds at the end of training: each step from a setting
to the next has the sign, and so has tau-a over the runs. A claim about each line is made of every
setting of the figure, and holds if it holds in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from flatlab.claims import Evidence, Judge
from flatlab.claims.curves import Curves, Setting
from flatlab.claims.missing import estimate
from flatlab.stats import Estimate, Verdict, every
from flatlab.stats.trends import difference, tau

Sweep = Sequence[Setting]
"""Settings in the order of the one hyper-parameter in which they differ."""


def difference_of_ends(a: Curves, b: Curves, name: str) -> Estimate:
    """Q(b) - Q(a)."""
    label = f"Q({name}; {b.setting}) - Q({name}; {a.setting}); {a.grid}"
    return estimate(label, lambda: difference(label, b.ends(name)[0], a.ends(name)[0]))


def varied(sweep: Sweep) -> str:
    """The hyper-parameter in which the settings differ, in words."""
    first, *others = sweep
    (name,) = (name for name in first if any(s[name] != first[name] for s in others))
    return name.replace("_", " ")


def tau_along(e: Evidence, grid: str, sweep: Sweep, name: str) -> Estimate:
    """Kendall's tau-a between the hyper-parameter and end(q), over the runs of a sweep."""
    label = f"tau-a({varied(sweep)}, {name}); {grid}"

    def found() -> Estimate:
        ends = [e.curves(grid, setting).ends(name)[0] for setting in sweep]
        strata = np.repeat(np.arange(len(sweep)), [len(values) for values in ends])
        return tau(label, strata.astype(float), np.concatenate(ends), strata)

    return estimate(label, found)


def monotonic(e: Evidence, grid: str, sweep: Sweep, name: str, rising: bool) -> Verdict:
    """The quantity rises, or falls, along the settings of a sweep."""
    steps = [
        difference_of_ends(e.curves(grid, a), e.curves(grid, b), name) for a, b in pairwise(sweep)
    ]
    estimates = [*steps, tau_along(e, grid, sweep, name)]
    return every((x > 0) if rising else (x < 0) for x in estimates)


def ordered(grid: str, sweep: Sweep, names: Sequence[str], rising: bool) -> Judge:
    """Each of the quantities rises, or falls, along a sweep."""
    return lambda e: every(monotonic(e, grid, sweep, name, rising) for name in names)


def each_line(grid: str, sweep: Sweep, judge: Callable[[Curves], Verdict]) -> Judge:
    """The same of the curves of every setting."""
    return lambda e: every(judge(e.curves(grid, setting)) for setting in sweep)


def falling(grid: str, sweep: Sweep, names: Sequence[str]) -> Judge:
    """The quantities decrease during interpolation, in each line."""
    return each_line(grid, sweep, lambda c: every(c.trend(name, "I") < 0 for name in names))


def following(grid: str, sweep: Sweep, leader: str, names: Sequence[str], limit: float) -> Judge:
    """Over training each quantity correlates with the leader by more than a limit, in each line."""
    pairs = [(leader, name) for name in names]
    return each_line(
        grid, sweep, lambda c: every(rho > limit for rho in c.rhos(*pairs, window="training"))
    )
