"""What was not computed: whatever needs it is `not run`, and says why.

`NotThere` is caught here and nowhere else, as near to the missing number as an estimate: where one
part of a claim is missing another may still decide it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flatlab.stats import Estimate, undefined

T = TypeVar("T")

FEWEST_RUNS = 2
"""Runs of which there is an interval."""

FEWEST_CHECKPOINTS = 3
"""Checkpoints of which there is a trend."""

FEWEST_RANKED = 10
"""Networks of which there is a rank correlation."""


class NotThere(Exception):
    """What a claim is about was not computed; the message says what."""


def attempt(make: Callable[[], T], otherwise: Callable[[str], T]) -> T:
    """What `make` returns or, where something was not computed, `otherwise` of the reason."""
    try:
        return make()
    except NotThere as missing:
        return otherwise(str(missing))


def estimate(name: str, make: Callable[[], Estimate]) -> Estimate:
    """The estimate that `make` returns, or one without a value that says why."""
    return attempt(make, lambda reason: undefined(name, reason))


def enough(count: int, of: object, what: str = "runs") -> None:
    """Raise `NotThere` where `of` has fewer of `what` than an interval needs."""
    if count < FEWEST_RUNS:
        raise NotThere(f"{of} has {count} {what}, an interval needs {FEWEST_RUNS}")
