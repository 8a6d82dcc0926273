"""Networks as points: one quantity against another, settings told apart by colour and marker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from flatlab.plotting.style import legend, look_of_settings

HEADROOM = 0.5
"""Share of a panel's data range that is added above it, for the correlation."""


def points_of_settings(ax: Any, runs: pd.DataFrame, x: str, y: str, size: float = 2.6) -> None:
    """One point per run, `size` points wide."""
    from seaborn import scatterplot

    looks = look_of_settings(runs["setting"])
    scatterplot(
        *(runs,),
        **{"x": x, "y": y, "hue": "setting", "style": "setting", "legend": False, "ax": ax},
        palette={setting: look.color for setting, look in looks.items()},
        markers={setting: look.marker for setting, look in looks.items()},
        **{"s": size**2, "linewidth": 0, "alpha": 0.85},
    )
    ax.set(xlabel="", ylabel="")


def legend_of_settings(fig: Any, settings: Iterable[str]) -> None:
    """Settings with their colours and markers, above all panels."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], ls="", marker=look.marker, color=look.color, ms=5, mew=0, label=setting)
        for setting, look in look_of_settings(settings).items()
    ]
    legend(fig, handles, handletextpad=0.1)


def limit(ax: Any, axis: str, values: pd.Series, headroom: float = 0.06, ticks: int = 3) -> None:
    """Limits and few ticks of an axis; room above the points where a text stands."""
    from matplotlib.ticker import MaxNLocator

    finite = values[values.abs() < float("inf")]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 1.0)
    span = (high - low) or abs(high) or 1.0
    getattr(ax, f"set_{axis}lim")(low - 0.06 * span, high + headroom * span)
    getattr(ax, f"{axis}axis").set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))
