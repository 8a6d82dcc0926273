"""What pictures of reports share: panels, a colour for each report, the legend, units."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import xarray as xr

from flatlab.lab.figures.labels import WITHOUT_UNITS
from flatlab.lab.figures.looks import COLORS

Reports = Mapping[str, xr.Dataset]
"""Reports by name."""
ACROSS = 3
"""Panels side by side, at most."""
LETTERS_PER_INCH = 13
"""Of a legend or a title, at the size of letters in these pictures."""


def with_units(name: str, units: str) -> str:
    """The label of an axis: the name, and the units if they say more."""
    return f"{name} ({in_signs(units)})".strip() if units not in WITHOUT_UNITS else name


def in_signs(units: str) -> str:
    return units.replace("^2", "²")


def panels(
    fig: Any, frame: pd.DataFrame, by: Sequence[str], across: int = ACROSS
) -> list[tuple[Any, pd.DataFrame]]:
    """A panel for each combination of some columns, titled by those that vary."""
    parts = list(frame.groupby(list(by), sort=False))
    columns = min(len(parts), across)
    axes = fig.subplots(-(-len(parts) // columns), columns, squeeze=False).ravel()
    for ax in axes[len(parts) :]:
        ax.remove()
    varying = [n for n, column in enumerate(by) if len(frame[column].unique()) > 1 or len(by) == 1]
    width = int(LETTERS_PER_INCH * fig.get_figwidth() / columns * 0.9)
    for ax, (key, _) in zip(axes, parts, strict=False):
        title = " of ".join(str(key[n]).replace("_", " ") for n in varying)
        ax.set_title(textwrap.fill(title, width), loc="left")
        ax.grid(alpha=0.5, lw=0.4)
    return [(ax, rows) for ax, (_, rows) in zip(axes, parts, strict=False)]


def colored(rows: pd.DataFrame, frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each report with its colour, the same in all panels."""
    names = list(dict.fromkeys(frame["report"]))
    return [
        (COLORS[names.index(name) % len(COLORS)], part)
        for name, part in rows.groupby("report", sort=False)
    ]


def legend(
    fig: Any, frame: pd.DataFrame, title: str = "", markers: Mapping[str, str] | None = None
) -> None:
    """Above the panels: the headline, the names of the reports if there are several, markers.

    markers: what they stand for, with the marker of each.
    """
    from matplotlib.lines import Line2D

    names = list(dict.fromkeys(frame["report"]))
    colors = [COLORS[n % len(COLORS)] for n in range(len(names))] if len(names) > 1 else []
    lines = [Line2D([], [], color=c, label=n) for c, n in zip(colors, names, strict=False)]
    how: dict[str, Any] = {"color": "0.35", "lw": 0, "ms": 3}
    lines += [Line2D([], [], marker=m, label=n, **how) for n, m in (markers or {}).items()]
    if lines:
        longest = max(len(str(line.get_label())) for line in lines) + 6
        columns = int(LETTERS_PER_INCH * fig.get_figwidth() // longest)
        where = {"loc": "outside upper left", "ncols": max(1, min(columns, len(lines)))}
        fig.legend(handles=lines, title=title or None, alignment="left", **where)
    elif title:
        fig.suptitle(title, x=0.01, ha="left")
