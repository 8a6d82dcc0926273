"""Template `Lines`: numbers that a paper's module selects, with bands or bars around them.

The legend stands above all panels, or below each column where they have other lines.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import pandas as pd

from flatlab.lab.figures import style
from flatlab.lab.figures.labels import in_lines
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import Look, handles_of, legend, letters

ASIDE = 1.03
"""By how much a line is shifted from the one before, so that their bars do not overlap."""


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per entry of `panels`, and these again for each value of the column `row`."""
    from matplotlib.transforms import offset_copy

    looks = {key: Look(*look) for key, (_, *look) in figure["lines"].items()}
    names = {key: label for key, (label, *_) in figure["lines"].items()}
    row, panels = figure["row"], figure["panels"]
    rows = list(dict.fromkeys(frame[row])) or [""] if row else [""]
    across = figure["across"] or len(panels)
    shape = len(rows) * -(-len(panels) // across), across
    every = fig.subplots(*shape, squeeze=False, sharey=figure["limits"] is not None)
    keys = frame[list(figure["panel"])].astype(str).agg(" ".join, axis=1)
    entries: list[dict[str, Look]] = [{} for _ in range(across)]  # of the legend, by column
    for number, (value, (key, about)) in enumerate(product(rows, panels.items())):
        ax = every.flat[number]
        here = frame[(keys == key) & (frame[row] == value)] if row else frame[keys == key]
        if about["x_scale"] != "iterations":  # a logarithmic axis has no zero
            here = here[here[figure["x"]] > 0]
        for place, points, name in _lines_of(here, figure, names):
            entries[number % across][names[name]] = looks[name]
            _uncertain(ax, points, place, looks[name], figure)
        _axes(ax, about, here, figure)
        if row and ax in every[:, 0]:
            ax.set_ylabel(f"{value}\n{about['y']}")
    letters(every.flat)
    whole = {name: look for each in entries for name, look in each.items()}
    if any(each.keys() == whole.keys() for each in entries):
        return legend(fig, whole)
    for ax, known in zip(every[-1], entries, strict=True):
        below = offset_copy(ax.transAxes, ax.figure, y=-28, units="points")
        there: dict[str, Any] = {"bbox_to_anchor": (0, 0), "bbox_transform": below}
        known = {in_lines(name, 24): look for name, look in known.items()}
        handles = handles_of(known)
        ax.legend(handles=handles, loc="upper left", borderaxespad=0, fontsize=6.5, **there)


def _lines_of(
    rows: pd.DataFrame, figure: Settings, names: Mapping[str, str]
) -> Iterator[tuple[float, pd.DataFrame, str]]:
    """The lines of a panel: the place of each among the others, its points and its key."""
    line = rows[figure["line"]].astype(str)
    known = [(line.isin([key, name]), key) for key, name in names.items()]
    drawn = [(chosen, key) for chosen, key in known if chosen.any()]
    for number, (chosen, key) in enumerate(drawn):
        yield number - (len(drawn) - 1) / 2, rows[chosen], key


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
    if about["y_scale"] == "shares":
        ax.set_ylim(0, 1.05)
    values = sorted({*rows[figure["x"]]})
    if about["x_scale"] == "iterations":
        ax.set_xlabel(style.of_iterations(ax, values))
    else:
        ax.set_xscale("log", base=2 if about["x_scale"] == "powers of two" else 10)
    if about["x_scale"] == "values":  # ticks at these, and nowhere else
        ax.set_xticks(values, [f"{value:g}" for value in values])
        ax.set_xticks([], minor=True)
    for draw_line, at in ((ax.axhline, figure["level"]), (ax.axvline, about["at"])):
        if at is not None:
            draw_line(at, color="0.6", lw=0.7, zorder=0.5)
