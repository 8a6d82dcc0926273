"""How far a long computation is: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from tqdm import tqdm

LINE_S = 60.0
BAR_S = 1.0


class Progress:
    """Counts steps of some unit.

    total: how many there are.  start: how many were done before.  note: called when something is
    shown, for what stands behind the numbers.
    """

    def __init__(self, total: int, unit: str, note: Callable[[], str], start: int = 0) -> None:
        self.total, self.unit, self.note = total, unit, note
        self.done = self.first = start
        self.began = self.shown = time.monotonic()
        terminal = sys.stderr.isatty()
        self.bar = tqdm(total=total, initial=start, unit=unit, smoothing=0.1) if terminal else None

    def advance(self, done: Callable[[], int]) -> None:
        """Something was done; `done` is asked how much when it is time to show it."""
        now = time.monotonic()
        if now - self.shown < (BAR_S if self.bar else LINE_S):
            return
        self.shown, self.done = now, done()
        self._show()

    def close(self, done: int) -> None:
        """Show the end."""
        self.done = done
        self._show()
        if self.bar:
            self.bar.close()

    def _show(self) -> None:
        if self.bar:
            self.bar.set_postfix_str(self.note(), refresh=False)
            self.bar.update(self.done - self.bar.n)
            return
        seconds = max(time.monotonic() - self.began, 1e-9)
        speed = (self.done - self.first) / seconds
        left = (self.total - self.done) / speed if speed else float("inf")
        remaining = f", {left:,.0f} s left" if 0 < left < float("inf") else ""
        print(
            f"{100 * self.done / max(self.total, 1):.0f} % of {self.total:,} {self.unit}, "
            f"{speed:,.0f}/s{remaining}; {self.note()}",
            file=sys.stderr,
            flush=True,
        )
