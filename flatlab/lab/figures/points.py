"""Template `Points`: a point per network, one number against another, and their correlation."""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from flatlab.lab.figures import axes as scaled
from flatlab.lab.figures import labels, style
from flatlab.lab.figures.looks import OfFactors, OfSettings
from flatlab.lab.figures.quantities import definition_in_words
from flatlab.lab.figures.render import Settings

NARROW = 4
"""From so many panels side by side on, labels are smaller, and an interval has its own line."""

SYMBOLS = {"rho": r"\rho", "tau": r"\tau"}


class Panel(NamedTuple):
    """points: a row per network, x and y.
    titles: of the axes, x and y.
    numbers: the correlation, `low` and `high`, and what else there is of the panel.
    others: correlations of other kinds, which are printed if their sign is another.
    heading: above the correlation.
    remark: below it.
    logarithmic: the axes that are, "x" and "y".
    equality: whether a line marks equal numbers.
    """

    points: pd.DataFrame
    titles: tuple[str, str]
    numbers: pd.Series
    others: dict[str, float]
    heading: str = ""
    remark: str = ""
    logarithmic: tuple[str, ...] = ()
    equality: bool = False


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per pair and experiment; per definition and column; or per entry of `panels`."""
    looks: OfFactors | OfSettings = OfFactors(frame, figure)
    counted = ""
    if figure["pairs"]:
        panels, looks = [*_pairs(frame, figure)], OfSettings(frame[frame["row"] == "run"])
        across = len(set(frame["experiment"]))
    elif figure["rows"]:
        panels = [*_definitions(frame, figure)]
        across = len(panels) // len(figure["rows"])
    else:
        panels, counted = [*_as_selected(frame, figure)], _counted(frame, figure)
        across = len(panels)
    across = figure["across"] or across
    shape = -(-len(panels) // across), across
    axes = fig.subplots(*shape, squeeze=False, sharey=figure["shared"])
    for ax, panel in zip(axes.flat, panels, strict=False):
        looks.scatter(ax, panel.points)
        _line(ax, panel)
        _scales(ax, panel, figure)
        _titles(ax, panel, figure, narrow=across >= NARROW)
        if figure["shared"] and ax not in axes[:, 0]:
            ax.set_ylabel("")
    style.letters(axes.flat[: len(panels)])
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    looks.explain(fig, axes, counted)


def _pairs(frame: pd.DataFrame, figure: Settings) -> Iterator[Panel]:
    panels = frame.groupby(["x", "y", "experiment"])
    experiments = dict.fromkeys(frame["experiment"])
    for (x, y), experiment in itertools.product(figure["pairs"], experiments):
        rows = panels.get_group((x, y, experiment)).set_index("row")
        points = rows.loc[["run"]].drop(columns=["x", "y"])
        numbers: Any = rows.loc["rho"]
        yield Panel(
            points.rename(columns={"x_value": "x", "y_value": "y"}),
            (labels.title_of(figure, x), labels.title_of(figure, y)),
            numbers,
            {kind: numbers[kind] for kind in style.OTHER_KINDS},
            heading="" if (x, y) != tuple(figure["pairs"][0]) else experiment,
        )


def _definitions(frame: pd.DataFrame, figure: Settings) -> Iterator[Panel]:
    place = ["experiment", "ordinate", "definition", "radius_index"]
    columns = [*itertools.product(dict.fromkeys(frame["experiment"]), figure["columns"])]
    for (definition, index), (experiment, y) in itertools.product(figure["rows"], columns):
        rows = frame[(frame[place] == [experiment, y, definition, index]).all(axis=1)]
        points, taus = (rows[rows["row"] == row] for row in ("run", "tau"))
        (_, numbers), *_ = taus[taus["group"] == ""].iterrows()
        case, scale, *rest = definition_in_words(definition).split(", ")
        radius = ", ".join([*rest, rf"$\rho$ = {numbers['radius']:g}"])
        first = (definition, index) == tuple(figure["rows"][0]) and y == figure["columns"][0]
        inside = taus["tau"][taus["group"] != ""].dropna()
        ends = [f"{end:.2f}".replace("-", "−") for end in (inside.min(), inside.max())]
        yield Panel(
            points,
            (f"{case}, {scale}\n{radius}", labels.label_of(figure, y)),
            numbers,
            {},
            heading=experiment if first else "",
            remark=f"groups {ends[0]} to {ends[1]}" if len(inside) > 1 else "",
            logarithmic=("x", "y") if y in figure["logarithmic"] else ("x",),
        )


def _as_selected(frame: pd.DataFrame, figure: Settings) -> Iterator[Panel]:
    runs = frame[frame["row"] == "run"].rename(columns={figure["y"]: "y"})
    facts = frame[frame["row"] == figure["correlation"]].set_index(figure["panel"])
    for key, titles in figure["panels"].items():
        numbers = facts.loc[key]
        yield Panel(
            runs[runs[figure["panel"]] == key],
            titles,
            numbers,
            {"within settings": numbers["within"]} if "within" in numbers else {},
            logarithmic=figure["logarithmic"],
            equality=key in figure["equal"],
        )


def _titles(ax: Any, panel: Panel, figure: Settings, narrow: bool) -> None:
    """The titles of the axes, and the correlation: in the panel, or above it with a remark."""
    kind = figure["correlation"]
    text = style.correlation(
        *map(float, panel.numbers[[kind, "low", "high"]]), symbol=SYMBOLS[kind], others=panel.others
    )
    x_title, y_title = panel.titles
    ax.set_xlabel(x_title, fontsize=6.0 if narrow and "\n" in x_title else 6.5)
    ax.set_ylabel(y_title)
    if figure["pairs"]:
        ax.text(0.03, 0.97, text, transform=ax.transAxes, va="top", fontsize=6)
        ax.set_title(panel.heading, loc="left")
        return
    text = text if narrow else text.replace("\n", " ", 1)
    remark = panel.remark and f"{'in' if narrow else 'within'} {panel.remark}"
    ax.set_title("\n".join(filter(None, [panel.heading, text, remark])), loc="left")


def _line(ax: Any, panel: Panel) -> None:
    """The line of least squares, where the frame has one, or that of equal numbers."""
    finite = panel.points["x"][np.isfinite(panel.points["x"])]
    if finite.empty:
        return
    x = np.linspace(finite.min(), finite.max(), 50)
    if "slope" in panel.numbers:
        ax.plot(x, panel.numbers["slope"] * x + panel.numbers["intercept"], color="0.2", lw=1.2)
    if panel.equality:
        ax.plot(x, x, color="0.4", lw=0.8, zorder=0.5)


def _scales(ax: Any, panel: Panel, figure: Settings) -> None:
    """Linear or logarithmic axes, with few ticks."""
    x, y = (panel.points[name][np.isfinite(panel.points[name])] for name in ("x", "y"))
    if figure["pairs"]:
        scaled.limit(ax, "x", x, ticks=4)
        scaled.limit(ax, "y", y, headroom=style.HEADROOM / 2, ticks=4)
        return
    if "y" in panel.logarithmic and (y > 0).any():
        ax.set_yscale("log")
    if "x" in panel.logarithmic and len(x) and (x.max() if figure["panels"] else x.min()) > 0:
        ax.set_xscale("log")
    scaled.plain_numbers(ax)
    ax.grid(which="major", lw=0.3, color="0.9")
    if ax.get_xscale() == "log":
        scaled.few_labels(ax.xaxis, x)
    elif "x" not in panel.logarithmic:
        scaled.limit(ax, "x", x, ticks=2 if len(figure["panels"]) > 4 else 3)
        ax.ticklabel_format(axis="x", scilimits=(-2, 4), useMathText=True)
        ax.xaxis.get_offset_text().set_fontsize(6)
    elif (size := x[x != 0].abs()).size:  # linear around zero, where averages are not positive
        ax.set_xscale("symlog", linthresh=size.quantile(0.5))
        ax.xaxis.get_major_locator().set_params(numticks=4)
    if figure["rows"]:
        ax.tick_params(labelsize=6, which="both", width=0.5, length=2, pad=1.5)


def _counted(frame: pd.DataFrame, figure: Settings) -> str:
    """How many networks are shown, and how many are not, in words."""
    facts = frame[frame["row"] == figure["correlation"]]
    parts = [f"{facts['networks'].max():.0f} networks"]
    parts += [f"{facts[n].max():.0f} {words}" for n, words in figure["counted"].items()]
    return "; ".join(part for part in parts if not part.startswith("0 "))
