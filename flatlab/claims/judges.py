"""Judges: predicates on correlations over trained networks, and on inequalities."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from flatlab.claims import Evidence, Judge
from flatlab.claims.evidence import Pair
from flatlab.claims.missing import attempt
from flatlab.stats import Verdict, every, not_run, some, theorem


def positive(grid: str, *pairs: Pair, seeds: int | None = None) -> Judge:
    """Each of these correlations is above zero."""
    return lambda e: every(e.rho(grid, x, y, seeds) > 0 for x, y in pairs)


def negative(grid: str, *pairs: Pair, seeds: int | None = None) -> Judge:
    """Each of these correlations is below zero."""
    return lambda e: every(e.rho(grid, x, y, seeds) < 0 for x, y in pairs)


def negative_somewhere(grids: Sequence[str], *pairs: Pair) -> Judge:
    """At least one of these correlations is below zero in at least one grid."""
    return lambda e: some(e.rho(grid, x, y) < 0 for grid in grids for x, y in pairs)


def exceed(
    grid: str, larger: Sequence[Pair], smaller: Sequence[Pair], seeds: int | None = None
) -> Judge:
    """Each of the `larger` correlations is above each of the `smaller` ones, on the same runs."""

    def judge(e: Evidence) -> Verdict:
        rhos = e.rhos(grid, *larger, *smaller, seeds=seeds)
        above, below = rhos[: len(larger)], rhos[len(larger) :]
        return every(a > b for a in above for b in below)

    return judge


def theorems(pairs: Mapping[str, Pair], values: Callable[[str], np.ndarray]) -> Verdict:
    """Inequalities that hold for every value.

    pairs: text -> names of the smaller and the larger quantity.  values: name -> (runs, ...).
    """
    return attempt(
        lambda: every(
            theorem(text, values(smaller), values(larger))
            for text, (smaller, larger) in pairs.items()
        ),
        not_run,
    )
