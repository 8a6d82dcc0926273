"""How far a long computation has got: a bar that forecasts, and a line per minute in a log."""

import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any, TypeVar

from tqdm import tqdm

LINE = "{percentage:.0f} % of {total:,} {unit}, {rate_noinv_fmt}, {remaining} left{postfix}"
IN_LOG: dict[str, Any] = {"bar_format": LINE, "delay": inf}  # with this delay it draws no bar
Item = TypeVar("Item")
MINUTE = 60.0
START = 10.0
"""Seconds that a first step may take beyond others, for what is loaded then."""
CLOCK = 1.0
"""Seconds after which a bar is drawn again: its clock moves also where a single step is long."""
UNCOUNTED = "{desc} [{elapsed}]"
"""What a bar of one step shows."""


class ProgressBar:
    """Counts the steps of a long computation.

    what: is done, in the words of the sentence, for example "30 random directions of 8 samples".
    total: steps, of about equal length; of a single one only the time is shown.
    progress: show a bar.
    """

    def __init__(self, what: str, total: int, progress: bool) -> None:
        self.what, self.start, self.said = what, time.monotonic(), False
        style = UNCOUNTED if total == 1 else None
        self.bar = tqdm(total=total, desc=what, disable=not progress, leave=False, bar_format=style)
        self.total, self.done = total, 0
        self.clock: threading.Thread | None = None
        self.closed = threading.Event()
        self.first: tuple[float, int] | None = None  # when the first step was done, of how many

    def __enter__(self) -> "ProgressBar":
        if not self.bar.disable:
            self.clock = threading.Thread(target=self._run_clock, daemon=True)
            self.clock.start()
        return self

    def _run_clock(self) -> None:
        while not self.closed.wait(CLOCK):
            self.bar.refresh()

    def __exit__(self, *error: object) -> None:
        self.closed.set()
        if self.clock:
            self.clock.join()
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


def ticked(items: Sequence[Item], what: str, progress: bool) -> Iterator[Item]:
    """The items, with a step of a bar after each.  what, progress: as for `ProgressBar`."""
    with ProgressBar(what, len(items), progress) as forecast:
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


class Progress:
    """Counts steps of some unit.

    total: the number of steps.  start: how many of them an earlier process has done.  note: called
    whenever progress is shown, for the text after the numbers.
    """

    def __init__(self, total: int, unit: str, note: Callable[[], str], start: int = 0) -> None:
        self.note = note
        self.terminal = sys.stderr.isatty()
        self.every_s = 1.0 if self.terminal else 60.0
        self.shown = time.monotonic()
        style = {"smoothing": 0.1} if self.terminal else IN_LOG
        self.bar = tqdm(total=total, initial=start, unit=unit, **style)

    def advance(self, done: Callable[[], int]) -> None:
        """Show progress if it is time to; only then is `done` called for the number of steps."""
        if time.monotonic() - self.shown >= self.every_s:
            self._show(done())

    def close(self, done: int) -> None:
        """Show the final state."""
        self._show(done)
        self.bar.close()

    def _show(self, done: int) -> None:
        self.shown = time.monotonic()
        self.bar.set_postfix_str(self.note(), refresh=False)
        self.bar.update(done - self.bar.n)
        if not self.terminal:
            print(self.bar, file=sys.stderr, flush=True)
