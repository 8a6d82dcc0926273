"""Timing and printing for the benchmarks."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

REPEATS = 5


def paired(
    *functions: Callable[[], Any], slow: bool = False, repeats: int = REPEATS
) -> tuple[float, ...]:
    """Median seconds of each function, timed alternately after one warm-up.

    slow: fewer repeats if one of them takes seconds.
    """
    times: list[list[float]] = [[] for _ in functions]
    most = repeats
    for repeat in range(most + 1):
        if repeat > repeats:
            break
        for function, kept in zip(functions, times, strict=True):
            _wait()
            start = time.perf_counter()
            function()
            _wait()
            seconds = time.perf_counter() - start
            if repeat:
                kept.append(seconds)
            elif slow and seconds > 2:
                repeats = 2
    return tuple(statistics.median(kept) for kept in times)


def _wait() -> None:
    """Wait until a GPU that is in use has finished."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def report(what: str, ours: float, baseline: float, name: str, unit: str = "") -> None:
    """Print our time in milliseconds, and how many times faster it is than a named baseline."""
    print(f"{what:<34}{1e3 * ours:10.3f} ms{unit}  {baseline / ours:8.2f} x  {name}", flush=True)
    REPORTED.setdefault(re.split(r" [(\[]", name)[0], []).append((baseline / ours, what, ours))


REPORTED: dict[str, list[tuple[float, str, float]]] = {}
"""By baseline: how many times faster, what, and our seconds."""


def summary() -> None:
    """Print a row for each baseline: the case of the median ratio, and the range of all."""
    print("\n| against | cases | ratio, from to | such as | ours, ms | theirs, ms | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name, cases in REPORTED.items():
        ratio, what, ours = sorted(cases)[len(cases) // 2]
        between = f"{min(cases)[0]:.2f} to {max(cases)[0]:.2f}"
        times = f"{1e3 * ours:.3g} | {1e3 * ours * ratio:.3g}"
        print(f"| {name} | {len(cases)} | {between} | {what} | {times} | {ratio:.2f} |")
