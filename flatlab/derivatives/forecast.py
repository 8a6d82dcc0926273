"""A progress bar that says first how long it takes, if that is more than a minute."""

import time
import warnings
from collections.abc import Iterable, Iterator, Sized
from types import TracebackType
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")
MINUTE = 60.0
START = 10.0
"""Seconds that a first step may take beyond others, for what is loaded then."""


class Forecast:
    """Counts the steps of a long computation.

    what: is done, in the words of the sentence, for example "30 random directions of 8 samples".
    total: steps, of about equal length.
    progress: show a bar.
    """

    def __init__(self, what: str, total: int, progress: bool) -> None:
        self.what, self.start, self.said = what, time.monotonic(), False
        self.bar = tqdm(total=total, desc=what, disable=not progress, leave=False)
        self.total, self.done = total, 0
        self.first: tuple[float, int] | None = None  # when the first step was done, of how many

    def __enter__(self) -> "Forecast":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.bar.close()

    def extend(self, steps: int) -> None:
        """More steps than it was thought are needed."""
        self.total += steps
        self.bar.total = self.total
        self.said = False

    def tick(self, steps: int = 1) -> None:
        """Some steps are done."""
        self.done += steps
        self.bar.update(steps)
        now = time.monotonic()
        spent, counted = now - self.start, self.done
        if self.first is None:
            self.first = now, self.done
            if spent < START:
                return
        elif self.done > self.first[1]:
            spent, counted = now - self.first[0], self.done - self.first[1]
        left = spent / counted * max(self.total - self.done, 0)
        if not self.said and (spent > 1 or left > 10 * MINUTE):
            self.said = True
            if left > MINUTE:
                warnings.warn(f"{self.what} will take about {duration(left)}", stacklevel=3)


def ticked(
    items: Iterable[Item], what: str, progress: bool, count: int | None = None
) -> Iterator[Item]:
    """The items, with a step of a `Forecast` after each.

    items: with a length, or as many as `count` says.
    what, progress: as for `Forecast`.
    """
    total = len(items) if isinstance(items, Sized) else count or 0
    with Forecast(what, total, progress) as forecast:
        for item in items:
            yield item
            forecast.tick()


def duration(seconds: float) -> str:
    """In words, for example "3 minutes"."""
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 120 * MINUTE:
        return f"{seconds / MINUTE:.0f} minutes"
    return f"{seconds / MINUTE / 60:.1f} hours"
