"""Template `Points`: a point per network, as a paper's module selects, and their correlation.

The panels of `Pairs`, and of a template of andriushchenko2023, are drawn here, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from flatlab.lab.figures import style
from flatlab.lab.figures.labels import label_of, two_digits, values_in_words
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import Look

NARROW = 4
"""From so many panels side by side on, labels are smaller, and an interval has its own line."""


class Panel(NamedTuple):
    """points: a row per network, x and y.
    titles: of the axes, x and y.
    numbers: the correlation, `low` and `high`, and what else there is of the panel.
    kind: of the correlation, "rho" or "tau".
    others: correlations of other kinds, some with their intervals.
    heading: above the correlation.
    logarithmic: the axes that are, "x" and "y".
    equality: whether a line marks equal numbers.
    """

    points: pd.DataFrame
    titles: tuple[str, str]
    numbers: pd.Series
    kind: str
    others: Mapping[str, Sequence[float]] = MappingProxyType({})
    heading: str = ""
    logarithmic: tuple[str, ...] = ()
    equality: bool = False

    @property
    def correlation(self) -> str:
        """The correlation and its interval, as printed, above the others that are known."""
        if np.isnan(float(self.numbers[self.kind])):
            return rf"$\{self.kind}$ undefined"
        numbers = {rf"$\{self.kind}$ =": self.numbers[[self.kind, "low", "high"]], **self.others}
        lines = []
        for name, (rho, *ends) in numbers.items():
            interval = f" [{', '.join(map(two_digits, ends))}]" if ends else ""
            if rho == rho:
                lines.append(f"{name} {two_digits(rho)}{interval}")
        return "\n".join(lines)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per entry of `panels`."""
    panels = [*_panels(frame, figure)]
    looks = OfFactors(frame[frame["row"] == "run"], figure, figure["groups"])
    counted = _counted(frame, figure)
    across = figure["across"] or len(panels)
    spare = draw_panels(fig, panels, looks, across, shared=True, counted=counted)
    if figure["subset"] and spare:
        _forest(spare[0], frame[frame["row"] == figure["correlation"]], figure)


def _forest(ax: Any, facts: pd.DataFrame, figure: Settings) -> None:
    """The correlations of all panels, over all networks and over a part of them."""
    name, *columns = figure["subset"]
    looks = {"all networks": Look("0.15", "o", ""), name: Look(style.COLORS[0], "D", "")}
    numbers = dict(zip(looks, ([figure["correlation"], "low", "high"], columns), strict=True))
    rows = {
        figure["panels"][fact[figure["panel"]]][0].partition("\n")[0]: [
            (look, fact[numbers[name]]) for name, look in looks.items()
        ]
        for _, fact in facts.iterrows()
    }
    forest(ax, rows, rf"$\{figure['correlation']}$, 95 % interval")
    ax.set_title(style.lettered(len(facts), "all of these"), loc="left")
    ax.set_ylim(top=1.4)
    ax.legend(handles=style.handles_of(looks), loc="upper left", fontsize=6, ncols=2)
    ax.set_axis_on()


def _panels(frame: pd.DataFrame, figure: Settings) -> Iterator[Panel]:
    kind = figure["correlation"]
    runs = frame[frame["row"] == "run"].rename(columns={figure["y"]: "y"})
    facts = frame[frame["row"] == kind].set_index(figure["panel"])
    kinds = {"same setting": ["within"]} if "within" in facts else {}
    count, (name, *columns) = len(figure["panels"]), figure["subset"] or [""]
    if columns and count % (figure["across"] or count) == 0:  # otherwise it has a panel
        kinds[name] = columns
    for key, titles in figure["panels"].items():
        numbers = facts.loc[key]
        yield Panel(
            runs[runs[figure["panel"]] == key],
            titles,
            numbers,
            kind,
            {name: [*numbers[columns]] for name, columns in kinds.items()},
            logarithmic=figure["logarithmic"],
            equality=key in figure["equal"],
        )


def _counted(frame: pd.DataFrame, figure: Settings) -> str:
    """How many networks are shown, and how many are not, in words."""
    facts = frame[frame["row"] == figure["correlation"]]
    parts = [f"{facts['networks'].max():.0f} networks"]
    parts += [f"{facts[n].max():.0f} {words}" for n, words in figure["counted"].items()]
    return "; ".join(part for part in parts if not part.startswith("0 "))


# ---- what all templates of points draw


def draw_panels(
    fig: Any,
    panels: Sequence[Panel],
    looks: "OfFactors | OfSettings",
    across: int,
    shared: bool = False,
    counted: str = "",
) -> list[Any]:
    """Panels, so many side by side, and a legend above them.

    looks: of the points.
    shared: whether panels of the same vertical title share the axis with the one before.
    counted: numbers of networks, for the legend.
    Returns the axes without a panel.
    """
    shape = -(-len(panels) // across), across
    axes = fig.subplots(*shape, squeeze=False)
    for place, (ax, panel) in enumerate(zip(axes.flat, panels, strict=False)):
        same = shared and place % across and panels[place - 1].titles[1] == panel.titles[1]
        if same:
            ax.sharey(axes.flat[place - 1])
        looks.scatter(ax, panel.points)
        _line(ax, panel, "--" if looks.lines(ax, panel.points) else "-")
        _axes(ax, panel, narrow=across >= NARROW, ticks=2 if len(panels) > 4 else 3)
        if same:
            ax.set_ylabel("")
            ax.tick_params(labelleft=False, which="both")
    style.letters(axes.flat[: len(panels)])
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    looks.explain(fig, axes, counted)
    return list(axes.flat[len(panels) :])


def _line(ax: Any, panel: Panel, dash: str) -> None:
    """The line of least squares, where the frame has one, or that of equal numbers."""
    finite = panel.points["x"][np.isfinite(panel.points["x"])]
    if finite.empty:
        return
    x = np.linspace(finite.min(), finite.max(), 50)
    if "slope" in panel.numbers:
        ax.plot(
            x, panel.numbers["slope"] * x + panel.numbers["intercept"], color="0.2", lw=1, ls=dash
        )
    if panel.equality:
        ax.plot(x, x, color="0.4", lw=0.8, zorder=0.5)
        below: dict[str, Any] = {"textcoords": "offset points", "va": "top"}
        ax.annotate("$y = x$", (x[25], x[25]), (3, -3), fontsize=6, **below)


def _axes(ax: Any, panel: Panel, narrow: bool, ticks: int) -> None:
    """Scales with few ticks, the titles of the axes, and the correlation above the panel."""
    x, y = (panel.points[name][np.isfinite(panel.points[name])] for name in ("x", "y"))
    if "y" in panel.logarithmic and (y > 0).any():
        ax.set_yscale("log")
    if "x" in panel.logarithmic and len(x) and x.min() > 0:
        ax.set_xscale("log")
    style.plain_numbers(ax)
    ax.grid(which="major", lw=0.3, color="0.9")
    if ax.get_xscale() == "log":
        style.few_labels(ax.xaxis, x)
    elif "x" not in panel.logarithmic:
        ax.locator_params("x", nbins=ticks)
        ax.ticklabel_format(axis="x", scilimits=(-2, 4), useMathText=True)
        ax.xaxis.get_offset_text().set_fontsize(6)
    elif (size := x[x != 0].abs()).size:  # averages may be negative
        ax.set_xscale("symlog", linthresh=size.quantile(0.5))
        ax.xaxis.get_major_locator().set_params(numticks=4)
    x_title, y_title = panel.titles
    ax.set_xlabel(x_title, fontsize=6.0 if narrow and "\n" in x_title else 6.5)
    ax.set_ylabel(y_title)
    text = panel.correlation.replace(" [", "\n[" if narrow else " [")
    ax.set_title("\n".join(filter(None, [panel.heading, text])), loc="left")


def forest(ax: Any, rows: Mapping[str, Sequence[tuple[Look, Any]]], label: str) -> None:
    """Correlations with the ends of their intervals, below each other under the name of a row."""
    for place, (name, correlations) in enumerate(rows.items()):
        ax.text(-1, 0.24 - place, name, fontsize=6)
        for number, (look, (value, low, high)) in enumerate(correlations):
            style.interval(ax, [value], low, high, [0.1 - place - 0.2 * number], look)
    style.from_minus_one_to_one(ax, label)
    ax.set(yticks=[], ylim=(0.3 - len(rows), 0.5))


# ---- what colour, marker and size of a point stand for


class OfSettings:
    """A colour and a marker for each setting, the same in all figures."""

    def __init__(self, runs: pd.DataFrame) -> None:
        self.settings = runs["setting"]

    def scatter(self, ax: Any, points: pd.DataFrame) -> None:
        """The networks of a panel."""
        style.points_of_settings(ax, points, "x", "y", size=2.6)

    def lines(self, ax: Any, points: pd.DataFrame) -> bool:
        """Settings have no lines of their own."""
        return False

    def explain(self, fig: Any, axes: Any, counted: str = "") -> None:
        """A legend above all panels."""
        style.legend_of_settings(fig, self.settings)


class OfFactors:
    """What colour and marker stand for: the levels of one hyper-parameter and of another.

    frame: rows with all of their levels, and rows `run`.
    factors: `groups` of the figure, that of the colours first.
    """

    def __init__(self, frame: pd.DataFrame, figure: Settings, factors: Sequence[str]) -> None:
        from matplotlib import colormaps
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import ListedColormap, LogNorm, Normalize, to_hex

        self.figure, self.factors, self.colors = figure, factors, style.COLORS
        self.levels = {name: list(frame[name].dropna().unique()) for name in factors}
        steps = self.levels[factors[0]] if factors else []
        if len(steps) > 2 and not isinstance(steps[0], str):
            steps.sort()
            shares = np.linspace(0, style.DARK_ENOUGH, len(steps))
            self.colors = tuple(to_hex(colormaps[style.MAP](share)) for share in shares)
        self.bar = None
        shade, runs = figure["shade"], frame[frame["row"] == "run"]
        if shade and len(runs):
            ends = np.nanmin(runs[shade]), np.nanmax(runs[shade])
            norm = LogNorm(*ends) if ends[0] > 0 and ends[1] > 20 * ends[0] else Normalize(*ends)
            shades = ListedColormap(colormaps[style.MAP](np.linspace(0, style.DARK_ENOUGH, 256)))
            self.bar = ScalarMappable(norm, shades.with_extremes(bad=style.UNKNOWN))

    def scatter(self, ax: Any, points: pd.DataFrame) -> None:
        """The networks of a panel."""
        for key, rows in (groups_of(points, self.figure["groups"]) or {(): points}).items():
            color, marker = self.of(key)
            look: dict[str, Any] = {"c": color, "marker": marker, "lw": 0.3, "ec": "white"}
            if self.bar:
                shades = rows[self.figure["shade"]]
                look |= {"c": shades, "norm": self.bar.norm, "cmap": self.bar.cmap}
                look["plotnonfinite"] = True
            if not any(self.figure.get(name) for name in ("groups", "size", "shade")):
                look |= {"alpha": 0.6, "lw": 0}  # where they overlap
            sizes = [diameter**2 for diameter in self.diameters(rows)]
            ax.scatter(rows["x"], rows["y"], s=sizes, **look)

    def lines(self, ax: Any, points: pd.DataFrame) -> bool:
        """The lines of least squares of the levels of the first factor, if the figure has them."""
        for (level,), rows in groups_of(points, self.factors[:1]).items():
            known = rows[np.isfinite(rows["x"]) & np.isfinite(rows["y"])]
            if self.figure.get("lines") and len(known) > 2 and np.ptp(known["x"]) > 0:
                x = np.linspace(known["x"].min(), known["x"].max(), 50)
                line = np.polynomial.Polynomial.fit(known["x"], known["y"], 1)
                ax.plot(x, line(x), color=self._color(self.factors[0], level), lw=1.2)
        return bool(self.figure.get("lines"))

    def of(self, key: tuple[Any, ...]) -> tuple[str, str]:
        """Colour and marker of a group: of one and of the other of its hyper-parameters."""
        if not key:
            return style.COLORS[0], style.MARKERS[0]
        levels = dict(zip(self.figure["groups"], key, strict=True))
        first, last = self.factors[0], self.factors[-1]
        return self._color(first, levels[first]), self._marker(last, levels[last])

    def _color(self, name: str, level: Any) -> str:
        return self.colors[self.levels[name].index(level) % len(self.colors)]

    def _marker(self, name: str, level: Any) -> str:
        if name == "batch_size":
            return style.marker_of(level)
        return style.MARKERS[self.levels[name].index(level) % len(style.MARKERS)]

    def diameters(self, rows: pd.DataFrame) -> Sequence[float]:
        """Of the markers of some networks, in points."""
        return [style.MIDDLE] * len(rows)

    def explain(self, fig: Any, axes: Any, counted: str = "", across: int = 7) -> None:
        """A legend above all panels, with so many entries side by side, and a bar of colours.

        counted: the numbers of networks, beside the bar.
        """
        from matplotlib.lines import Line2D

        lines = [
            Line2D([], [], ls="", mew=0, color=color, marker=marker, ms=ms, label=label)
            for label, color, marker, ms in self.entries()
        ]
        if lines:
            options = {"fontsize": 6.5, "handletextpad": 0.1, "columnspacing": 1.0}
            fig.legend(
                handles=lines, loc="outside upper left", ncols=min(across, len(lines)), **options
            )
        if self.bar:
            label = label_of(self.figure, self.figure["shade"])
            bar = fig.colorbar(self.bar, ax=axes, shrink=0.6, aspect=30)
            bar.set_label(f"{label} ({counted})" if counted else label, fontsize=6.5)

    def entries(self) -> list[tuple[str, str, str, float]]:
        """Label, colour, marker and size of each level: a colour, or a marker of a second one."""
        handles = []
        for name in self.factors:
            for level in self.levels[name]:
                first = name == self.factors[0]
                color, marker = self._color(name, level), self._marker(name, level)
                look = (color, "o") if first else ("0.4", marker)
                handles.append((values_in_words(self.figure, {name: level}), *look, style.LARGEST))
        return handles


def groups_of(frame: pd.DataFrame, by: Sequence[str]) -> dict[tuple[object, ...], pd.DataFrame]:
    """The rows for each combination of values of some columns, the first one seen first."""
    return dict(list(frame.groupby(list(by), sort=False))) if by else {}
