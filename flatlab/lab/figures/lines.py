"""Template `Lines`: numbers that a paper's module selects, with bands or bars around them."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import pandas as pd

from flatlab.lab.figures import style
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import Look, legend, letters

ASIDE = 1.04
"""By how much a line is shifted from the one before, so that their bars do not overlap."""


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per entry of `panels`, and these again for each value of the column `row`."""
    looks = {key: Look(*look) for key, (_, *look) in figure["lines"].items()}
    names = {key: label for key, (label, *_) in figure["lines"].items()}
    row, panels = figure["row"], figure["panels"]
    rows = list(dict.fromkeys(frame[row])) or [""] if row else [""]
    across = figure["across"] or len(panels)
    shape = len(rows) * -(-len(panels) // across), across
    every = fig.subplots(*shape, squeeze=False, sharey=figure["limits"] is not None)
    keys = frame[list(figure["panel"])].astype(str).agg(" ".join, axis=1)
    for ax, (value, (key, about)) in zip(every.flat, product(rows, panels.items()), strict=True):
        here = frame[(keys == key) & (frame[row] == value)] if row else frame[keys == key]
        if about["x_scale"] != "iterations":  # a logarithmic axis has no zero
            here = here[here[figure["x"]] > 0]
        for place, points, look in _lines_of(here, figure, looks, names):
            _uncertain(ax, points, place, look, figure)
        _axes(ax, about, here, figure)
        if value != rows[0]:
            ax.set_title("", loc="left")
        if row and ax in every[:, 0]:
            ax.set_ylabel(f"{value}\n{about['y']}")
    letters(every.flat)
    drawn = {*frame[figure["line"]]}
    legend(fig, {names[key]: look for key, look in looks.items() if drawn & {key, names[key]}})


def _lines_of(
    rows: pd.DataFrame, figure: Settings, looks: Mapping[str, Look], names: Mapping[str, str]
) -> Iterator[tuple[float, pd.DataFrame, Look]]:
    """The lines of a panel: the place of each among the others, its points and its look."""
    line = rows[figure["line"]].astype(str)
    known = [(line.isin([key, names[key]]), look) for key, look in looks.items()]
    drawn = [(chosen, look) for chosen, look in known if chosen.any()]
    for number, (chosen, look) in enumerate(drawn):
        yield number - (len(drawn) - 1) / 2, rows[chosen], look


def _uncertain(ax: Any, points: pd.DataFrame, place: float, look: Look, figure: Settings) -> None:
    """A line with a band or with bars between the ends of what it is uncertain by."""
    x, y = points[figure["x"]], points[figure["y"]]
    first, *second = (points[name] for name in figure["ends"])
    low, high = (first, *second) if second else (y - first, y + first)
    if figure["bars"]:
        x = x * ASIDE**place
        ax.vlines(x, low, high, color=look.color, lw=0.8)
    else:
        ax.fill_between(x, low, high, color=look.color, alpha=0.2, lw=0)
    ax.plot(x, y, ms=3 if figure["bars"] else 2.3, **look.options)


def _axes(ax: Any, about: Mapping[str, Any], rows: pd.DataFrame, figure: Settings) -> None:
    """Titles, scales and reference lines of a panel."""
    ax.set_title(about["title"], loc="left")
    ax.set(xlabel=about["x"], ylabel=about["y"])
    ax.grid(lw=0.3, color="0.85")
    if figure["limits"]:
        ax.set_ylim(*figure["limits"])
    if about["y_scale"] == "logarithmic" and (rows[figure["y"]] > 0).any():
        ax.set_yscale("log")
    values = sorted({*rows[figure["x"]]})
    if about["x_scale"] == "iterations":
        ax.set_xlabel(style.of_iterations(ax, values))
    else:
        ax.set_xscale("log", base=2 if about["x_scale"] == "powers of two" else 10)
    if about["x_scale"] == "values":
        style.at_values(ax, values)
    for draw_line, at in ((ax.axhline, figure["level"]), (ax.axvline, about["at"])):
        if at is not None:
            draw_line(at, color="0.6", lw=0.7, zorder=0.5)
