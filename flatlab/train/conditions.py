"""The conditions of a training: arithmetic that repeats, requests to stop, too little memory."""

import contextlib
import gc
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import torch

from flatlab.precision import float32_products


class TrainError(RuntimeError):
    """A training that cannot be done as declared; the message names the key to change."""


class Interrupted(RuntimeError):
    """A training that was asked to stop, and has saved its state."""


class Watch(contextlib.ExitStack):
    """Decides when the states are saved: at intervals, and on a request to stop.

    every_s: the interval, or None if nothing is saved. In its context, SIGTERM and SIGINT are
    collected instead of ending the process, which only the main thread can do.
    """

    def __init__(self, every_s: float | None) -> None:
        super().__init__()
        self.every_s, self.last = every_s, time.monotonic()
        self.asked: list[int] = []

    def __enter__(self) -> Self:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if self.every_s is not None and in_main_thread:
            for kind in (signal.SIGTERM, signal.SIGINT):
                before = signal.signal(kind, lambda number, frame: self.asked.append(number))
                self.callback(signal.signal, kind, before)
        return self

    def due(self) -> bool:
        late = self.every_s is not None and time.monotonic() - self.last > self.every_s
        return late or bool(self.asked)

    def saved(self, steps: str) -> None:
        """Note that the states were saved; raises `Interrupted` if there was a request to stop."""
        self.last = time.monotonic()
        if self.asked:
            name = signal.Signals(self.asked[0]).name
            raise Interrupted(
                f"stopped by {name} after {steps} steps; the next run continues from there"
            )


@contextlib.contextmanager
def arithmetic(packs: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Algorithms that repeat bit for bit; TF32 products only if `precision` says so.

    Denormal numbers count as zero: the momentum of a dead unit decays into them and stays there,
    which slows a CPU down, although no weight is moved by more than 1e-38.
    """
    wanted = {settings["training"]["precision"] for settings in packs}
    tf32 = "tf32" in wanted
    if tf32 and len(wanted) > 1:
        raise TrainError("packs with training.precision tf32 are trained apart from others")
    flags: list[tuple[Any, str, bool]] = [
        # Filling memory helps to find errors, and costs time.
        (torch.utils.deterministic, "fill_uninitialized_memory", False),
        (torch.backends.cudnn, "benchmark", False),
    ]
    flushed = not torch.tensor(torch.finfo(torch.float32).tiny).div(2).item()
    with contextlib.ExitStack() as undo:
        undo.enter_context(float32_products(tf32))
        for holder, name, value in flags:
            undo.callback(setattr, holder, name, getattr(holder, name))
            setattr(holder, name, value)
        undo.callback(torch.set_deterministic_debug_mode, torch.get_deterministic_debug_mode())
        torch.set_deterministic_debug_mode("error")
        undo.callback(torch.set_flush_denormal, flushed)
        torch.set_flush_denormal(True)
        yield


@contextlib.contextmanager
def memory(packs: Sequence[Mapping[str, Any]], device: str) -> Iterator[None]:
    """Say which keys to change if the memory is not sufficient; give a GPU's back at the end."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        full = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not full and "allocate memory" not in str(error):  # an ordinary error, on a CPU
            raise
        runs = sum(len(settings["runs"]) for settings in packs)
        raise TrainError(
            f"out of memory with {runs} networks at a time; smaller blocks of `seeds` in the grid, "
            "training.mode graphs or loop, or a smaller training.batch_size need less"
        ) from None
    finally:
        if device == "cuda":
            gc.collect()  # an error's traceback keeps what it passed through
            torch.cuda.empty_cache()
