"""How the ends of training curves depend on a hyper-parameter.

A quantity rises or falls along a sweep if its mean over seeds at the end of training does so at
every step from a setting to the next, and tau-a over the runs has the same sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from flatlab.claims import Evidence
from flatlab.claims.curves import Curves, in_words
from flatlab.claims.evidence import Setting
from flatlab.claims.missing import estimate
from flatlab.stats import Estimate, Verdict, every
from flatlab.stats.trends import difference, tau

Sweep = Sequence[Setting]
"""Settings in the order of the one hyper-parameter in which they differ."""


def difference_of_ends(a: Curves, b: Curves, name: str) -> Estimate:
    """Q(b) - Q(a), where Q is the mean over seeds at the end of training."""
    label = f"Q({name}; {in_words(b.setting)}) - Q({name}; {in_words(a.setting)}); {a.grid}"
    return estimate(label, lambda: difference(label, *b.ends(name), *a.ends(name)))


def tau_along(sweep: Sequence[Curves], name: str) -> Estimate:
    """Kendall's tau-a between the hyper-parameter and the end of training, over all runs."""
    first, *others = (curves.setting for curves in sweep)
    (varied,) = (key for key in first if any(other[key] != first[key] for other in others))
    label = f"tau-a({varied.replace('_', ' ')}, {name}); {sweep[0].grid}"

    def found() -> Estimate:
        ends = [curves.ends(name)[0] for curves in sweep]
        strata = np.repeat(np.arange(len(sweep)), [len(values) for values in ends])
        return tau(label, strata.astype(float), np.concatenate(ends), strata)

    return estimate(label, found)


def monotonic(e: Evidence, grid: str, sweep: Sweep, name: str, rising: bool) -> Verdict:
    """The quantity rises, or falls, along the settings of a sweep."""
    curves = [Curves(e, grid, setting) for setting in sweep]
    steps = [difference_of_ends(a, b, name) for a, b in pairwise(curves)]
    estimates = [*steps, tau_along(curves, name)]
    return every((x > 0) if rising else (x < 0) for x in estimates)
