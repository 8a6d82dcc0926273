"""Networks as points: one quantity against another, with a colour and a marker per setting."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from flatlab.plotting.style import Look, legend, look_of_settings

HEADROOM = 0.5
"""The share of a panel's data range that is added above it, for the correlation."""


def points_of_settings(ax: Any, runs: pd.DataFrame, x: str, y: str, size: float = 2.6) -> None:
    """One point per run, `size` points wide."""
    for setting, look in _looks(runs["setting"]).items():
        here = runs[runs["setting"] == setting]
        ax.plot(here[x], here[y], ms=size, alpha=0.85, **look.options)


def legend_of_settings(fig: Any, settings: Iterable[str]) -> None:
    """The settings with their colours and markers, above all panels."""
    legend(fig, _looks(settings), handletextpad=0.1)


def _looks(settings: Iterable[str]) -> dict[str, Look]:
    """Markers without a line."""
    return {name: look._replace(dash="") for name, look in look_of_settings(settings).items()}


def limit(ax: Any, axis: str, values: pd.Series, headroom: float = 0.06, ticks: int = 3) -> None:
    """Set the limits of an axis and a few ticks.

    headroom: the share of the data range that is left free above the points.
    """
    from matplotlib.ticker import MaxNLocator

    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 1.0)
    span = (high - low) or abs(high) or 1.0
    getattr(ax, f"set_{axis}lim")(low - 0.06 * span, high + headroom * span)
    getattr(ax, f"{axis}axis").set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))
