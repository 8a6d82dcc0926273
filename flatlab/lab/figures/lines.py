"""Template `Lines`: numbers along an axis, a line per setting, quantity or group of networks.

Quantities through training, or at its end along hyper-parameters, have a thin line per network or
seed and a bold one for these; what a paper selects has bands or bars. seaborn's lineplot joins the
points on both sides of a checkpoint without a value; here that is a gap.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.figures import axes as scaled
from flatlab.lab.figures.frames.training import SEED
from flatlab.lab.figures.labels import NAMES, WORDS, label_of, title_of, without_common
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import (
    BOUNDS,
    SAMPLES,
    Look,
    in_order,
    legend,
    letters,
    look_of_settings,
)

LOGARITHMIC = {"train_loss"}
"""Quantities that span orders of magnitude; the panels of the others have linear axes."""

MARK = Look("0.4", "", (0, (2, 1.3)))
"""The vertical marks in the legend."""

ASIDE = 1.04
"""By how much a line is shifted from the one before, so that their bars do not overlap."""


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per quantity, per quantity and hyper-parameter, or per entry of `panels`."""
    if figure["along"]:
        _along(fig, frame, figure)
    elif figure["quantities"]:
        _through_training(fig, frame, figure)
    else:
        _as_selected(fig, frame, figure)


def _through_training(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per quantity; or a panel per entry of `axes`, each with all quantities."""
    looks = {name: Look(*look) for name, look in figure["looks"].items()}
    options = {"line": figure["line"], "columns": figure["across"] or 3, "looks": looks}
    options["names"] = {**NAMES, **{name: label_of(figure, name) for name in figure["quantities"]}}
    options["logarithmic"] = {*LOGARITHMIC, *figure["logarithmic"]}
    panels = {name: title_of(figure, name) for name in figure["quantities"]}
    if axes := figure["axes"]:
        frame = pd.concat([frame.assign(axis=title) for title in axes], ignore_index=True)
        panels = {title: title for title in axes}
        logarithmic = [title for title, kind in axes.items() if kind == "logarithmic"]
        options |= {"panel": "axis", "logarithmic": logarithmic}
    draw_panels(fig, frame, panels, **options)


def draw_panels(
    fig: Any,
    frame: pd.DataFrame,
    panels: Mapping[str, str],
    panel: str = "quantity",
    *,
    line: str = "setting",
    columns: int = 3,
    logarithmic: Collection[str] = LOGARITHMIC,
    shared: bool = False,
    looks: Mapping[str, Look] | None = None,
    names: Mapping[str, str] = NAMES,
) -> dict[str, Any]:
    """A panel per value of the column `panel`, a line per value of the column `line`.

    panels: values of `panel` and the titles of their panels.
    line: setting, samples or quantity.
    logarithmic: the panels with a logarithmic vertical axis.
    shared: whether all panels share one vertical axis.
    looks: of lines that look different from those in `style`.
    names: of lines in the legend, where they are no settings.
    Returns the axes by panel.
    """
    curves, windows = (frame[frame["row"] == row] for row in ("curve", "window"))
    windows = windows.drop_duplicates(["setting", "iteration"])
    known = {**SAMPLES, **BOUNDS, **(looks or {})}
    first = [] if line == "setting" else [name for name in known if name in {*curves[line]}]
    known = look_of_settings([*first, *curves[line]], known)
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    axes = list(fig.subplots(rows, columns, squeeze=False, sharey=shared).flat)
    iterations = sorted(set(curves["iteration"]))
    for ax in axes[len(panels) :]:
        ax.set_axis_off()
    for (key, title), ax in zip(panels.items(), axes, strict=False):
        here = curves[curves[panel] == key]
        if key in logarithmic and (here["median"] > 0).any():
            ax.set_yscale("log")
        for place, (name, look) in enumerate(known.items()):
            _medians(ax, here[here[line] == name], look, place)
        _marks(ax, windows, known)
        if not np.isfinite(here["median"]).any():
            ax.text(0.5, 0.5, "no values", transform=ax.transAxes, ha="center", color="0.5")
        ax.set_title(title, loc="left")
        scaled.of_medians(ax, (curves if shared else here)["median"])
        unit = scaled.of_iterations(ax, iterations)
    letters(axes[: len(panels)] if len(panels) > 1 else [])
    fig.supxlabel(unit, fontsize=6.5)
    legend(fig, **_entries(curves, line, known, names, marks=len(windows) > 0))
    return dict(zip(panels, axes, strict=False))


def _entries(
    curves: pd.DataFrame,
    line: str,
    looks: Mapping[str, Look],
    labels: Mapping[str, str],
    marks: bool,
) -> dict[str, Any]:
    """The title and the entries of the legend; where all lines have as many runs, once."""
    title, names = without_common(list(looks)) if line == "setting" else ("", {})
    names = names or {name: labels.get(name, name) for name in looks}
    counts = {name: _counted(rows, "run") for name, rows in curves.groupby(line)["runs"]}
    if len({*counts.values()}) == 1 and title:
        title += f" ({next(iter(counts.values()))} each)"
        counts = {}
    entries = {
        names[name] + (f" ({counts[name]})" if counts else ""): look for name, look in looks.items()
    }
    if marks:
        entries["training loss falls below 0.01"] = MARK
    return {"looks": entries, "title": title}


def _medians(ax: Any, rows: pd.DataFrame, look: Look, place: int) -> None:
    """A thin line per run and a bold one, with a few markers, with their median.

    place: the place of the line among the others, which shifts its markers.
    """
    x, median = (rows[name].to_numpy(dtype=float) for name in ("iteration", "median"))
    for seed in (name for name in rows if str(name).startswith(SEED)):
        if rows[seed].notna().any():
            ax.plot(x, rows[seed], color=look.color, lw=0.35, alpha=0.5)
    step = max(1, len(x) // 7)
    seen = np.isfinite(median)
    before, after = np.append(False, seen[:-1]), np.append(seen[1:], False)
    # only a marker shows a value between two gaps, which no line reaches
    marked = {*range(min(place, step - 1), len(x), step), *np.flatnonzero(seen & ~before & ~after)}
    options = {**look.options, "lw": 1.3, "ms": 2.5}
    ax.plot(x, median, markevery=[int(index) for index in sorted(marked)], **options)


def _marks(ax: Any, windows: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Where interpolation begins, in the colour of the setting where each line is one."""
    for begins, group in windows.groupby("iteration"):
        for place, setting in enumerate(group["setting"]):
            # the dashes of settings with the same mark alternate
            dash = (4 * place, (3, 1 + 4 * (len(group) - 1)))
            color = looks[setting].color if setting in looks else "0.5"
            ax.axvline(begins, color=color, lw=0.8, ls=dash, zorder=0.5)


def _counted(counts: pd.Series, noun: str) -> str:
    """The number of networks over which a line is the mean, or its range along the line."""
    most = int(counts.max())
    fewest = int(counts[counts > 0].min()) if most else 0
    number = f"{most} {noun}{'s' if most != 1 else ''}"
    return number if fewest == most else f"{fewest} to {number}"


def _along(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A row per quantity and a column per hyper-parameter; with one of these, all in one row."""
    along, quantities = figure["along"], figure["quantities"]
    panels = [(quantity, name) for quantity in quantities for name in along]
    columns = len(quantities) if len(along) == 1 else len(along)
    shape = {"squeeze": False, "sharey": "row" if len(along) > 1 else False}
    axes = fig.subplots(len(panels) // columns, columns, **shape)
    looks = in_order(sorted(set(frame["line"])))
    for (quantity, name), ax in zip(panels, axes.flat, strict=True):
        here = frame[(frame["quantity"] == quantity) & (frame["along"] == name)]
        if quantity in figure["logarithmic"] and (here["y"] > 0).any():
            ax.set_yscale("log")
            scaled.plain_numbers(ax)
        for value, look in looks.items():
            _means(ax, here[here["line"] == value], look.options)
        _hyperparameter(ax, sorted(set(here["x"])), figure["along"][name][1])
        rows = frame[frame["quantity"] == quantity] if len(along) > 1 else here
        scaled.span(ax, rows["y"].astype(float), factor=1.2)  # an interval may reach beyond it
        if here.empty:
            ax.text(0.5, 0.5, "no networks", transform=ax.transAxes, ha="center", color="0.5")
        ax.set(xlabel=along[name][0], ylabel=label_of(figure, quantity))
        if len(along) > 1:
            ax.label_outer()
    letters(axes.flat)
    word = WORDS.get(figure["line"], figure["line"])
    runs = frame[frame["row"] == "mean"].groupby("line")["networks"]
    entries = {
        f"{word} {value:g} ({_counted(runs.get_group(value), 'network')})": looks[value]
        for value in looks
    }
    legend(fig, entries, ms=3.5, fontsize=7)


def _means(ax: Any, rows: pd.DataFrame, options: dict[str, Any]) -> None:
    """A thin line per seed, and a bold one with the means and their intervals."""
    for _, seed in rows[rows["row"] == "run"].sort_values("x").groupby("seed"):
        ax.plot(seed["x"], seed["y"], color=options["color"], lw=0.4, alpha=0.45)
    means = rows[rows["row"] == "mean"].sort_values("x")
    ends = np.abs(means[["low", "high"]].to_numpy(dtype=float).T - means["y"].to_numpy())
    bold = {**options, "lw": 1.5, "ms": 3, "elinewidth": 0.7}
    ax.errorbar(means["x"], means["y"], yerr=np.nan_to_num(ends), **bold)


def _hyperparameter(ax: Any, values: list[float], kind: str) -> None:
    """Ticks at the values; zero has a place on a symmetric axis."""
    if kind == "symmetric" and (positive := [value for value in values if value > 0]):
        ax.set_xscale("symlog", linthresh=min(positive), linscale=0.5)
    elif kind == "logarithmic":
        ax.set_xscale("log")
    scaled.at_values(ax, values)


def _as_selected(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
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
        ax.set_xlabel(scaled.of_iterations(ax, values))
    else:
        ax.set_xscale("log", base=2 if about["x_scale"] == "powers of two" else 10)
    if about["x_scale"] == "values":
        scaled.at_values(ax, values)
    for draw_line, at in ((ax.axhline, figure["level"]), (ax.axvline, about["at"])):
        if at is not None:
            draw_line(at, color="0.6", lw=0.7, zorder=0.5)
