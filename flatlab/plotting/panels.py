"""Template `Panels`: sharpness against errors, a row per definition, with Kendall's tau."""

import itertools
from typing import Any

import numpy as np
import pandas as pd

from flatlab.plotting import Settings, Tables, style, words
from flatlab.plotting.quantities import definition_in_words, networks, require
from flatlab.tables.ranks import at_radius, groups_of, rank_correlations

COLORS: tuple[str, ...] = ("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#949494")
MARKERS = "o^sDvPX"
SMALLEST, LARGEST = 2.2, 5.0
"""The sizes of markers, in points."""

NARROW = 4
"""From so many panels side by side on, labels are smaller, and an interval has its own line."""

MAP, UNKNOWN = "viridis", "0.6"
"""Colours of numbers, and of networks that have none."""


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """Rows `run`: a network in a panel.  Rows `tau`: Kendall's tau of a panel or of a `group` of
    its networks, with its interval, over so many `networks`.  Rows `count`: how many of the
    networks `of` an experiment, or of a group, are shown.
    """
    parts, titles = [], words.headings(tables)
    for experiment, table in tables.items():
        factors = [name for name in (*figure["groups"], figure["size"], figure["shade"]) if name]
        end, kept = networks(table, [*figure["columns"], *factors], figure)
        about = pd.DataFrame({"name": end["run"].values} | {n: end[n].values for n in factors})
        head = {"experiment": titles[experiment]}
        for key, rows in {(): about, **groups_of(about, figure["groups"])}.items():
            values = dict(zip(figure["groups"], key, strict=False))
            numbers = {"networks": kept[rows.index].sum(), "of": len(rows)}
            group = {"group": in_words(figure, values), **values, **numbers}
            parts.append(pd.DataFrame([{"row": "count", **head, **group}]))
        for (definition, index), y in itertools.product(figure["rows"], figure["columns"]):
            require(end, [definition], "definition")
            require(end, [str(index)], "radius_index")
            values = {"x": at_radius(end, definition, index), "y": end[y].values}
            radii = at_radius(end, definition, index, "radius")
            radius = float(radii[0]) if len(radii) else np.nan
            place = {**head, "definition": definition, "radius_index": index, "radius": radius}
            points = about.assign(**values)[kept]
            both = points.assign(row="run"), taus(points, figure).assign(row="tau")
            parts += [each.assign(ordinate=y, **place) for each in both]
    return pd.concat(parts, ignore_index=True)


def taus(points: pd.DataFrame, figure: Settings) -> pd.DataFrame:
    """Kendall's tau of the columns x and y over all networks, then over each of their groups."""
    rows = []
    for key, chosen in {(): points, **groups_of(points, figure["groups"])}.items():
        (tau,) = rank_correlations(chosen, ("x", "y"))
        low, high = tau.interval()
        group = in_words(figure, dict(zip(figure["groups"], key, strict=False)))
        rows.append([group, tau.value, low, high, tau.n])
    return pd.DataFrame(rows, columns=["group", "tau", "low", "high", "networks"])


def in_words(figure: Settings, values: dict[str, Any]) -> str:
    """Values of hyper-parameters by their printed names."""
    found = []
    for name, value in values.items():
        text = value if isinstance(value, str) else f"{value:g}"
        default = f"{words.WORDS.get(name, name.replace('_', ' '))} {text}"
        found.append(figure["values"].get(name, {}).get(text, default))
    return ", ".join(found)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A row per definition; the columns of each experiment side by side."""
    runs, taus = (frame[frame["row"] == row] for row in ("run", "tau"))
    experiments = list(dict.fromkeys(frame["experiment"]))
    columns = list(itertools.product(experiments, figure["columns"]))
    shape = len(figure["rows"]), len(columns)
    across = figure["across"] or len(columns)
    axes = fig.subplots(np.prod(shape) // across, across, squeeze=False).reshape(shape)
    looks, narrow = Looks(frame, figure), across >= NARROW
    place = ["experiment", "ordinate", "definition", "radius_index"]
    for (row, column), ax in np.ndenumerate(axes):
        (experiment, y), (definition, index) = columns[column], figure["rows"][row]
        key = [experiment, y, definition, index]
        points, here = (each[(each[place] == key).all(axis=1)] for each in (runs, taus))
        looks.scatter(ax, points)
        _scales(ax, points, y in figure["logarithmic"])
        heading = "" if row or y != next(iter(figure["columns"])) else f"{experiment}\n"
        ax.set_title(f"{heading}{_printed(here, narrow)}", loc="left")
        radius = rf"$\rho$ = {here['radius'].iloc[0]:g}"
        case, scale, *logits = definition_in_words(definition).split(", ")
        ax.set_xlabel(
            f"{case}, {scale}\n{', '.join([*logits, radius])}", fontsize=6.0 if narrow else 6.5
        )
        ax.set_ylabel(figure["columns"][y], fontsize=6.5)
    style.letters(axes.flat)
    looks.explain(fig, axes)


def _printed(taus: pd.DataFrame, narrow: bool) -> str:
    """Kendall's tau over all networks, and the smallest and the largest over groups of them."""
    whole = taus[taus["group"] == ""].iloc[0]
    text = style.correlation(*whole[["tau", "low", "high"]], symbol=r"\tau")
    text = text if narrow else text.replace("\n", " ")
    inside = taus["tau"][taus["group"] != ""].dropna()
    if len(inside) < 2:
        return text
    low, high = (f"{end:.2f}".replace("-", "−") for end in (inside.min(), inside.max()))
    return f"{text}\n{'in' if narrow else 'within'} groups {low} to {high}"


def _scales(ax: Any, points: pd.DataFrame, logarithmic: bool) -> None:
    """A logarithmic abscissa; linear around zero where an average case is not positive."""
    x = points["x"][np.isfinite(points["x"])]
    if logarithmic and len(points):
        ax.set_yscale("log")
    if len(x) and x.min() > 0:
        ax.set_xscale("log")
        style.plain_numbers(ax)
        style.few_labels(ax.xaxis, x)
    elif (size := x[x != 0].abs()).size:
        ax.set_xscale("symlog", linthresh=size.quantile(0.5))
        ax.xaxis.get_major_locator().set_params(numticks=4)
    ax.tick_params(labelsize=6, which="both", width=0.5, length=2, pad=1.5)
    ax.grid(which="major", lw=0.3, color="0.9")


class Looks:
    """What colour, marker and size stand for in all panels of a figure."""

    def __init__(self, frame: pd.DataFrame, figure: Settings) -> None:
        from matplotlib import colormaps
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import LogNorm, Normalize, to_hex

        self.figure, self.counts = figure, frame[frame["row"] == "count"]
        groups, size, shade = figure["groups"], figure["size"], figure["shade"]
        self.levels = {name: list(self.counts[name].dropna().unique()) for name in groups}
        runs, self.colors = frame[frame["row"] == "run"], COLORS
        if groups and len(steps := self.levels[groups[0]]) > 2 and not isinstance(steps[0], str):
            steps.sort()
            shares = np.linspace(0, 0.9, len(steps))
            self.colors = tuple(to_hex(colormaps[MAP](share)) for share in shares)
        self.sizes = sorted({*runs[size].dropna()}) if size else []
        self.bar = None
        if shade and len(runs):
            ends = np.nanmin(runs[shade]), np.nanmax(runs[shade])
            norm = LogNorm(*ends) if ends[0] > 0 and ends[1] > 20 * ends[0] else Normalize(*ends)
            self.bar = ScalarMappable(norm, colormaps[MAP].with_extremes(bad=UNKNOWN))

    def scatter(self, ax: Any, points: pd.DataFrame) -> None:
        """The networks of a panel."""
        for key, rows in (groups_of(points, self.figure["groups"]) or {(): points}).items():
            color, marker = self.of(key)
            look: dict[str, Any] = {"c": color, "marker": marker, "lw": 0.3, "ec": "white"}
            if self.bar:
                shades = rows[self.figure["shade"]]
                look |= {"c": shades, "norm": self.bar.norm, "cmap": self.bar.cmap}
                look["plotnonfinite"] = True
            areas = [
                self.size(value) ** 2 for value in rows.get(self.figure["size"], [0] * len(rows))
            ]
            ax.scatter(rows["x"], rows["y"], s=areas, **look)

    def of(self, key: tuple[Any, ...]) -> tuple[str, str]:
        """Colour and marker of a group: of its first and of its last hyper-parameter."""
        if not key:
            return COLORS[0], MARKERS[0]
        names = self.figure["groups"]
        first, last = (self.levels[names[n]].index(key[n]) for n in (0, -1))
        return self.colors[first % len(self.colors)], MARKERS[last % len(MARKERS)]

    def size(self, value: Any) -> float:
        """The diameter of a marker, in points."""
        if len(self.sizes) < 2:
            return (SMALLEST + LARGEST) / 2
        return SMALLEST + (LARGEST - SMALLEST) * self.sizes.index(value) / (len(self.sizes) - 1)

    def explain(self, fig: Any, axes: Any) -> None:
        """A legend above all panels, with the numbers of networks, and a bar of colours."""
        from matplotlib.lines import Line2D

        handles = []
        grouped = self.counts[self.counts["group"] != ""].groupby("group", sort=False)
        for label, rows in grouped:
            color, marker = self.of(tuple(rows[name].iloc[0] for name in self.figure["groups"]))
            numbers = [
                f"{n:.0f} of {every:.0f}"
                for n, every in zip(rows["networks"], rows["of"], strict=True)
            ]
            label = f"{label}: {' and '.join(numbers)}" if self.figure["at_most"] else label
            handles.append((label, "0.4" if self.bar else color, marker, (SMALLEST + LARGEST) / 2))
        for value in dict.fromkeys([*self.sizes[:1], *self.sizes[-1:]]):
            label = in_words(self.figure, {self.figure["size"]: value})
            handles.append((label, "0.6", "o", self.size(value)))
        lines = [
            Line2D([], [], ls="", mew=0, color=color, marker=marker, ms=ms, label=label)
            for label, color, marker, ms in handles
        ]
        if lines:
            options = {"fontsize": 6.5, "handletextpad": 0.1, "columnspacing": 1.0}
            fig.legend(handles=lines, loc="outside upper left", ncols=min(3, len(lines)), **options)
        if self.bar:
            name = self.figure["shade"]
            label = self.figure["columns"].get(name) or words.WORDS.get(
                name, name.replace("_", " ")
            )
            fig.colorbar(self.bar, ax=axes, shrink=0.6, aspect=30).set_label(label, fontsize=6.5)
