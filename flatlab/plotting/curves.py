"""Template `Curves`: quantities through training, a line per setting, sample set or quantity.

seaborn's lineplot joins the points on both sides of a checkpoint without a value; here that is a
gap. The markers of lines that coincide alternate.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from flatlab.plotting.labels import NAMES, label_of, title_of, without_common
from flatlab.plotting.render import Settings, Tables
from flatlab.plotting.spread import SEED, horizontal, spread
from flatlab.plotting.style import BOUNDS, SAMPLES, Look, legend, letters, look_of_settings
from flatlab.tables.selection import first, until_stop

LOGARITHMIC = {"train_loss"}
"""Quantities that span orders of magnitude; the panels of the others have linear axes."""

MARK = Look("0.4", "", (0, (2, 1.3)))
"""The vertical marks in the legend."""


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """The columns of `spread`."""
    (table,) = tables.values()
    if figure["until"]:
        table = until_stop(table, figure["until"])
    table = first(table, figure["share"])
    options = {key: figure[key] for key in ("quantities", "where", "samples", "marks", "named")}
    return spread(table, **options)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per quantity; or a panel per entry of `axes`, each with all quantities."""
    looks = {name: Look(*look) for name, look in figure["looks"].items()}
    options = {"line": figure["line"], "columns": figure["columns"], "looks": looks}
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
            _line(ax, here[here[line] == name], look, place)
        _marks(ax, windows, known)
        if not np.isfinite(here["median"]).any():
            ax.text(0.5, 0.5, "no values", transform=ax.transAxes, ha="center", color="0.5")
        ax.set_title(title, loc="left")
        _vertical(ax, curves if shared else here)
        unit = horizontal(ax, iterations)
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
    counts = {name: _runs(rows) for name, rows in curves.groupby(line)["runs"]}
    if len({*counts.values()}) == 1 and title:
        title += f" ({next(iter(counts.values()))} each)"
        counts = {}
    entries = {
        names[name] + (f" ({counts[name]})" if counts else ""): look for name, look in looks.items()
    }
    if marks:
        entries["training loss falls below 0.01"] = MARK
    return {"looks": entries, "title": title}


def _line(ax: Any, rows: pd.DataFrame, look: Look, place: int) -> None:
    """A thin line per run and a bold one, with a few markers, with their median.

    place: the place of the line among the others, which shifts its markers.
    """
    x, median = (rows[name].to_numpy(dtype=float) for name in ("iteration", "median"))
    for seed in (name for name in rows if str(name).startswith(SEED)):
        if rows[seed].notna().any():
            ax.plot(x, rows[seed], color=look.color, lw=0.35, alpha=0.5)
    step = max(1, len(x) // 7)
    there = np.isfinite(median)
    before, after = np.append(False, there[:-1]), np.append(there[1:], False)
    # only a marker shows a value between two gaps, which no line reaches
    marked = {*range(min(place, step - 1), len(x), step), *np.flatnonzero(there & ~before & ~after)}
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


def _vertical(ax: Any, rows: pd.DataFrame) -> None:
    """A logarithmic axis spans the medians only, since a run may reach down to zero."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    if ax.get_yscale() == "linear":
        ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        ax.yaxis.get_major_formatter().set_useOffset(False)
        return
    positive = rows["median"][(rows["median"] > 0) & np.isfinite(rows["median"])]
    if len(positive):
        ax.set_ylim(low := positive.min() / 1.5, high := positive.max() * 1.5)
        if high < 300 * low:  # there would be only one or two powers of ten
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.yaxis.set_major_formatter("{x:g}")
            ax.yaxis.set_minor_formatter(NullFormatter())


def _runs(counts: pd.Series) -> str:
    """The number of runs over which a line is the mean, or its range along the line."""
    most = int(counts.max())
    fewest = int(counts[counts > 0].min()) if most else 0
    return f"{most} run{'s' if most != 1 else ''}" if fewest == most else f"{fewest} to {most} runs"
