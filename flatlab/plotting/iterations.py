"""The axis of iterations, linear or logarithmic like the spacing of the checkpoints."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def log_spaced(checkpoints: Sequence[float] | np.ndarray) -> bool:
    """Whether the positive checkpoints are spaced more evenly on a logarithmic axis."""
    positive = np.asarray(checkpoints, dtype=float)
    positive = positive[positive > 0]
    if len(positive) < 3:
        return False
    spacings = (np.diff(positive), np.diff(np.log(positive)))
    linear, logarithmic = (gaps.std() / gaps.mean() for gaps in spacings)
    return bool(logarithmic < linear)


def horizontal(ax: Any, iterations: Sequence[float]) -> str:
    """Set up the horizontal axis, the same for all panels, and return its label."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    if log_spaced(iterations):
        ax.set_xscale("log")
        ax.set_xlim(iterations[0] / 1.15, iterations[-1] * 1.15)
        ax.xaxis.set_major_locator(LogLocator(numticks=8))
        ax.xaxis.set_minor_formatter(NullFormatter())
        return "iteration"
    unit = 1000 if iterations and iterations[-1] >= 20_000 else 1
    ax.xaxis.set_major_locator(MaxNLocator(6))
    ax.xaxis.set_major_formatter(lambda x, _: f"{x / unit:g}")
    return "iteration (thousands)" if unit > 1 else "iteration"
