"""How far a long computation has got: a bar on a terminal, a line per minute in a log."""

import sys
import time
from collections.abc import Callable
from math import inf
from typing import Any

from tqdm import tqdm

LINE = "{percentage:.0f} % of {total:,} {unit}, {rate_noinv_fmt}, {remaining} left{postfix}"
IN_LOG: dict[str, Any] = {"bar_format": LINE, "delay": inf}  # with this delay it draws no bar


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
