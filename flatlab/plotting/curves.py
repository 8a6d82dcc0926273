"""Template `Curves`: quantities through training, a line per setting, sample set or quantity.

seaborn's lineplot joins the points on both sides of a gap; here a checkpoint without a value is a
gap.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.plotting.iterations import horizontal
from flatlab.plotting.spread import spread
from flatlab.plotting.style import BOUNDS, NAMES, SAMPLES, Look, legend, look_of_settings, title_of

LOGARITHMIC = {"train_loss"}
"""Panels of what moves over orders of magnitude; the others have linear axes."""


def frame(
    figure: Mapping[str, Any],
    tables: Mapping[str, xr.Dataset],
    correlations: Mapping[str, xr.Dataset],
) -> pd.DataFrame:
    """The columns of `spread`."""
    (table,) = tables.values()
    options = {key: figure[key] for key in ("quantities", "where", "samples", "marks")}
    return spread(table, **options)


def draw(fig: Any, frame: pd.DataFrame, figure: Mapping[str, Any]) -> None:
    """A panel per quantity; or all quantities in one panel, once per axis."""
    looks = {name: Look(*look) for name, look in figure["looks"].items()}
    options = {"line": figure["line"], "columns": figure["columns"], "looks": looks}
    if figure["line"] == "quantity":
        frame = pd.concat([frame.assign(axis=title) for title in figure["axes"]], ignore_index=True)
        logarithmic = {title for title, kind in figure["axes"].items() if kind == "logarithmic"}
        titles = {title: title for title in figure["axes"]}
        draw_panels(fig, frame, titles, "axis", logarithmic=logarithmic, **options)
    else:
        draw_panels(fig, frame, {name: title_of(name) for name in figure["quantities"]}, **options)


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
    level: float | None = None,
    looks: Mapping[str, Look] | None = None,
) -> dict[str, Any]:
    """A panel per value of the column `panel`, a line per value of the column `line`.

    panels: the values of `panel` with the titles of their panels.  line: setting, samples or
    quantity.  logarithmic: panels whose vertical axis is.  shared: whether all have the same
    vertical axis.  level: where to draw a horizontal line.  looks: of lines that differ from those
    of `style`.  Returns the axes by panel.
    """
    curves, windows = (frame[frame["row"] == row] for row in ("curve", "window"))
    windows = windows.drop_duplicates(["setting", "iteration"])
    known = _looks(line, curves[line], looks or {})
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    axes = list(fig.subplots(rows, columns, squeeze=False, sharey=shared).flat)
    every = sorted(set(curves["iteration"]))
    for ax in axes[len(panels) :]:
        ax.set_axis_off()
    for (key, title), ax in zip(panels.items(), axes, strict=False):
        here = curves[curves[panel] == key]
        if key in logarithmic and (here["mean"] > 0).any():
            ax.set_yscale("log")
        for place, (name, look) in enumerate(known.items()):
            _line(ax, here[here[line] == name], look, place)
        _marks(ax, windows, {name: look.color for name, look in known.items()})
        if level is not None:
            ax.axhline(level, color="0.2", lw=0.7, zorder=0.6)
        if not len(here) or not np.isfinite(here["mean"]).any():
            ax.text(0.5, 0.5, "no values", transform=ax.transAxes, ha="center", color="0.5")
        ax.set_title(title, loc="left")
        _vertical(ax, curves if shared else here)
        unit = horizontal(ax, every)
    fig.supxlabel(unit, fontsize=8)
    _legend(fig, curves, known, line, len(windows) > 0)
    return dict(zip(panels, axes, strict=False))


def _marks(ax: Any, windows: pd.DataFrame, colors: Mapping[str, str]) -> None:
    """Where interpolation begins, in the colour of the setting where the lines are settings."""
    for begins, group in windows.groupby("iteration"):
        for place, setting in enumerate(group["setting"]):
            # where marks of several settings coincide, their dashes take turns
            dash = (4 * place, (3, 1 + 4 * (len(group) - 1)))
            ax.axvline(begins, color=colors.get(setting, "0.5"), lw=0.8, ls=dash, zorder=0.5)


def _looks(line: str, names: pd.Series, own: Mapping[str, Look]) -> dict[str, Look]:
    """How the lines look that there are; samples and bounds in the order of `style`."""
    if line == "setting":
        return look_of_settings(names, own)
    known = {**(SAMPLES if line == "samples" else BOUNDS), **own}
    there = {*names}
    return look_of_settings([*(n for n in known if n in there), *names], known)


def _line(ax: Any, rows: pd.DataFrame, look: Look, place: int) -> None:
    """Mean with markers here and there, and the band around it."""
    drawn = ("iteration", "mean", "low", "high")
    x, mean, low, high = (rows[name].to_numpy(dtype=float) for name in drawn)
    step = max(1, len(x) // 7)
    there = np.isfinite(mean)
    before, after = np.append(False, there[:-1]), np.append(there[1:], False)
    # a value between two gaps has no line: its marker alone shows it
    marked = {*range(min(place, step - 1), len(x), step), *np.flatnonzero(there & ~before & ~after)}
    style = {"color": look.color, "ls": look.dash, "lw": 1.2, "marker": look.marker, "mew": 0}
    ax.plot(x, mean, ms=3.5, markevery=[int(index) for index in sorted(marked)], **style)
    if np.isfinite(low).any():
        ax.fill_between(x, low, high, color=look.color, alpha=0.18, lw=0)


def _vertical(ax: Any, rows: pd.DataFrame) -> None:
    """A logarithmic axis spans the means: a band may reach down to zero, where there is no end."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    if ax.get_yscale() == "linear":
        ax.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        ax.yaxis.get_major_formatter().set_useOffset(False)
        return
    positive = rows["mean"][(rows["mean"] > 0) & np.isfinite(rows["mean"])]
    if len(positive):
        ax.set_ylim(low := positive.min() / 1.5, high := positive.max() * 1.5)
        if high < 300 * low:  # powers of ten alone would be one or two
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
            ax.yaxis.set_minor_formatter(NullFormatter())


def _legend(
    fig: Any, curves: pd.DataFrame, looks: Mapping[str, Look], line: str, marks: bool
) -> None:
    """Lines by name with the number of their runs, and what the vertical marks are."""
    from matplotlib.lines import Line2D

    handles = []
    for name, look in looks.items():
        label = f"{NAMES.get(name, name)} ({_runs(curves['runs'][curves[line] == name])})"
        color, marker, dash = look
        handle = Line2D([], [], color=color, ls=dash, lw=1.2, marker=marker, ms=4.5, mew=0)
        handle.set_label(label)
        handles.append(handle)
    if marks:
        label = "training loss falls below 0.01"
        handles.append(Line2D([], [], color="0.4", ls=(0, (3, 2)), lw=0.8, label=label))
    legend(fig, handles)


def _runs(counts: pd.Series) -> str:
    """How many runs a line is the mean of: along it there may be fewer."""
    most = int(counts.max())
    fewest = int(counts[counts > 0].min()) if most else 0
    return f"{most} run{'s' if most != 1 else ''}" if fewest == most else f"{fewest} to {most} runs"
