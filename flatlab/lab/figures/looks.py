"""What colour, marker and size of a point stand for, and the legends that say so."""

from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.figures import style
from flatlab.lab.figures.labels import label_of, values_in_words
from flatlab.lab.figures.render import Settings
from flatlab.lab.tables.ranks import groups_of

COLORS: tuple[str, ...] = ("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#949494")
MARKERS = "o^sDvPX"
SMALLEST, LARGEST = 2.2, 5.0
"""The sizes of markers, in points."""

MAP, UNKNOWN = "viridis", "0.6"
"""Colours of numbers, and of networks that have none."""


class OfSettings:
    """A colour and a marker for each setting, the same in all figures."""

    def __init__(self, runs: pd.DataFrame) -> None:
        self.settings = runs["setting"]

    def scatter(self, ax: Any, points: pd.DataFrame) -> None:
        """The networks of a panel."""
        style.points_of_settings(ax, points, "x", "y", size=2.6)

    def explain(self, fig: Any, axes: Any, counted: str = "") -> None:
        """A legend above all panels."""
        style.legend_of_settings(fig, self.settings)


class OfFactors:
    """What colour, marker and size stand for in all panels of a figure."""

    def __init__(self, frame: pd.DataFrame, figure: Settings) -> None:
        from matplotlib import colormaps
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import LogNorm, Normalize, to_hex

        self.figure, self.counts = figure, frame[frame["row"] == "count"]
        groups, size, shade = figure["groups"], figure["size"], figure["shade"]
        runs, self.colors = frame[frame["row"] == "run"], COLORS
        levels = runs if self.counts.empty else self.counts
        self.levels = {name: list(levels[name].dropna().unique()) for name in groups}
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
            sizes = rows.get(self.figure["size"], [0] * len(rows))
            if not any(self.figure[name] for name in ("groups", "size", "shade")):
                look |= {"alpha": 0.6, "lw": 0}  # where they overlap
            ax.scatter(rows["x"], rows["y"], s=[self.size(value) ** 2 for value in sizes], **look)

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

    def explain(self, fig: Any, axes: Any, counted: str = "") -> None:
        """A legend above all panels, with the numbers of networks, and a bar of colours.

        counted: the numbers of networks, beside the bar.
        """
        from matplotlib.lines import Line2D

        handles = self._groups() if len(self.counts) else self._levels()
        for value in dict.fromkeys([*self.sizes[:1], *self.sizes[-1:]]):
            label = values_in_words(self.figure, {self.figure["size"]: value})
            handles.append((label, "0.6", "o", self.size(value)))
        lines = [
            Line2D([], [], ls="", mew=0, color=color, marker=marker, ms=ms, label=label)
            for label, color, marker, ms in handles
        ]
        if lines:
            options = {"fontsize": 6.5, "handletextpad": 0.1, "columnspacing": 1.0}
            across = 3 if len(self.counts) else 7
            fig.legend(
                handles=lines, loc="outside upper left", ncols=min(across, len(lines)), **options
            )
        if self.bar:
            label = label_of(self.figure, self.figure["shade"])
            bar = fig.colorbar(self.bar, ax=axes, shrink=0.6, aspect=30)
            bar.set_label(f"{label} ({counted})" if counted else label, fontsize=6.5)

    def _groups(self) -> list[tuple[str, str, str, float]]:
        """Label, colour, marker and size of each group, with the number of its networks."""
        handles = []
        grouped = self.counts[self.counts["group"] != ""].groupby("group", sort=False)
        for label, rows in grouped:
            color, marker = self.of(tuple(rows[name].iloc[0] for name in self.figure["groups"]))
            numbers = [
                f"{n:.0f} of {every:.0f}"
                for n, every in zip(rows["networks"], rows["of"], strict=True)
            ]
            label = f"{label}: {' and '.join(numbers)}" if self.figure["at_most"] else str(label)
            handles.append((label, "0.4" if self.bar else color, marker, (SMALLEST + LARGEST) / 2))
        return handles

    def _levels(self) -> list[tuple[str, str, str, float]]:
        """The same for each level of the first hyper-parameter, a colour, and of the last one."""
        names, ms = self.figure["groups"], LARGEST
        first, last = names[:1], names[1:]
        return [
            *(
                (
                    values_in_words(self.figure, {name: level}),
                    self.colors[n % len(self.colors)],
                    "o",
                    ms,
                )
                for name in first
                for n, level in enumerate(self.levels[name])
            ),
            *(
                (values_in_words(self.figure, {name: level}), "0.4", MARKERS[n % len(MARKERS)], ms)
                for name in last
                for n, level in enumerate(self.levels[name])
            ),
        ]
