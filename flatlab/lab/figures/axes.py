"""Scales, limits and ticks of the axes of all figures."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd


def plain_numbers(ax: Any) -> None:
    """Numbers such as 0.02 and 300 on logarithmic axes, between powers of ten where they fit.

    From 10^5 on they are powers of ten.
    """
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            if not super().__call__(x, pos):
                return ""
            number, power, exponent = f"{x:.5g}".partition("e+")
            factor = "" if number == "1" else rf"{number}\cdot "
            return f"${factor}10^{{{int(exponent)}}}$" if power else number

    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_scale() == "log":
            axis.set_major_formatter(Plain())
            axis.set_minor_formatter(Plain(minor_thresholds=(1.5, 0.5)))


def few_labels(axis: Any, values: pd.Series) -> None:
    """Three labels or so on a logarithmic axis of less than two decades, as in narrow panels."""
    from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

    low, high = values.min(), values.max()
    if (span := high / low) < 100:
        kept: list[float] = []  # those that do not come too near the one before
        for tick in MaxNLocator(3).tick_values(low, high):
            if low <= tick <= high and (not kept or tick / kept[-1] > span**0.3):
                kept.append(tick)
        even = span < 10 and kept
        axis.set_major_locator(FixedLocator(kept) if even else LogLocator(subs=(1, 3)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter("{x:g}")


def limit(ax: Any, axis: str, values: pd.Series, headroom: float = 0.06, ticks: int = 3) -> None:
    """Set the limits of an axis and a few ticks.

    headroom: the share of the data range that is left free above the points.
    """
    from matplotlib.ticker import MaxNLocator

    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 1.0)
    span = (high - low) or abs(high) or 1.0
    getattr(ax, f"set_{axis}lim")(low - 0.06 * span, high + headroom * span)
    getattr(ax, f"{axis}axis").set_major_locator(MaxNLocator(ticks, steps=[1, 2, 4, 5, 10]))


def log_spaced(checkpoints: Sequence[float] | np.ndarray) -> bool:
    """Whether the positive checkpoints are spaced more evenly on a logarithmic axis."""
    positive = np.asarray(checkpoints, dtype=float)
    positive = positive[positive > 0]
    if len(positive) < 3:
        return False
    spacings = (np.diff(positive), np.diff(np.log(positive)))
    linear, logarithmic = (gaps.std() / gaps.mean() for gaps in spacings)
    return bool(logarithmic < linear)


def of_iterations(ax: Any, iterations: Sequence[float]) -> str:
    """Set up the horizontal axis, the same for all panels, and return its label."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    if log_spaced(iterations):
        ax.set_xscale("log")
        ax.set_xlim(iterations[0] / 1.15, iterations[-1] * 1.15)
        ax.xaxis.set_major_locator(LogLocator(numticks=8))
        ax.xaxis.set_minor_formatter(NullFormatter())
        return "iteration"
    unit = 1000 if iterations and iterations[-1] >= 10_000 else 1  # room for their labels
    ax.xaxis.set_major_locator(MaxNLocator(6))
    ax.xaxis.set_major_formatter(lambda x, _: f"{x / unit:g}")
    return "iteration (thousands)" if unit > 1 else "iteration"


def at_values(ax: Any, values: Sequence[float]) -> None:
    """Ticks at all values of a horizontal axis, and nowhere else."""
    from matplotlib.ticker import NullLocator

    ax.set_xticks(values, [f"{value:g}" for value in values])
    ax.xaxis.set_minor_locator(NullLocator())


def span(ax: Any, values: pd.Series, factor: float, margin: float = 0.08) -> None:
    """Limits of a vertical axis, of which a logarithmic one has no place for the others.

    factor: from the least and the largest positive value to the ends of a logarithmic axis.
    margin: the share of the range of the values that is free at both ends of a linear axis.
    """
    finite = values[np.isfinite(values) & ((values > 0) | (ax.get_yscale() == "linear"))]
    if not len(finite):
        return
    low, high = finite.min(), finite.max()
    if ax.get_yscale() == "log":
        ax.set_ylim(low / factor, high * factor)
    else:
        free = margin * (high - low or abs(high) or 1)
        ax.set_ylim(low - free, high + free)


def of_medians(ax: Any, medians: pd.Series) -> None:
    """A logarithmic vertical axis spans the medians only, since a run may reach down to zero."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    if ax.get_yscale() == "linear":
        ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        ax.yaxis.get_major_formatter().set_useOffset(False)
        return
    span(ax, medians, factor=1.5)
    low, high = ax.get_ylim()
    if high < 300 * low:  # there would be only one or two powers of ten
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter(NullFormatter())
