"""When the states of a training are saved."""

import contextlib
import signal
import threading
import time
from typing import Self

from flatlab.lab.train.errors import Interrupted


class CheckpointTimer(contextlib.ExitStack):
    """Decides when the states are saved: at intervals, and on a request to stop.

    every_s: the interval in seconds, or None if nothing is saved.

    In its context, SIGTERM and SIGINT are collected instead of ending the process, which only the
    main thread can do.
    """

    def __init__(self, every_s: float | None) -> None:
        super().__init__()
        self.every_s, self.last = every_s, time.monotonic()
        self.signals: list[int] = []

    def __enter__(self) -> Self:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if self.every_s is not None and in_main_thread:
            for number in (signal.SIGTERM, signal.SIGINT):
                handler = signal.signal(number, lambda number, frame: self.signals.append(number))
                self.callback(signal.signal, number, handler)
        return self

    def due(self) -> bool:
        """Whether the states are to be saved now."""
        late = self.every_s is not None and time.monotonic() - self.last > self.every_s
        return late or bool(self.signals)

    def saved(self, steps: str) -> None:
        """Note that the states were saved; raises `Interrupted` if there was a request to stop."""
        self.last = time.monotonic()
        if self.signals:
            name = signal.Signals(self.signals[0]).name
            raise Interrupted(
                f"stopped by {name} after {steps} steps; the next run continues from there"
            )
