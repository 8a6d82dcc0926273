"""What was not computed: a claim about it is `not run` and says why.

`NotThere` is caught here and nowhere else, as close to the missing number as an estimate: if one
part of a claim is missing, another part may still decide it.
"""

from collections.abc import Callable
from typing import TypeVar

from flatlab.stats import Estimate, undefined

T = TypeVar("T")

FEWEST_RUNS = 2
"""The fewest runs that have an interval."""

FEWEST_CHECKPOINTS = 3
"""The fewest checkpoints that have a trend."""

FEWEST_RANKED = 10
"""The fewest networks that have a rank correlation."""


class NotThere(Exception):
    """Something that a claim is about was not computed; the message says what."""


def attempt(make: Callable[[], T], otherwise: Callable[[str], T]) -> T:
    """The result of `make` or, if something was not computed, of `otherwise(reason)`."""
    try:
        return make()
    except NotThere as missing:
        return otherwise(str(missing))


def estimate(name: str, make: Callable[[], Estimate]) -> Estimate:
    """The estimate that `make` returns, or an undefined one that says why."""
    return attempt(make, lambda reason: undefined(name, reason))


def enough(count: int, of: object, what: str = "runs") -> None:
    """Raise `NotThere` if `of` has fewer of `what` than an interval needs."""
    if count < FEWEST_RUNS:
        raise NotThere(f"{of} has {count} {what}, an interval needs {FEWEST_RUNS}")
