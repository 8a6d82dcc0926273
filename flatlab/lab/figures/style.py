"""How all figures look: colours and markers of the lines, legends, letters and axes.

A factor has one encoding: the learning rate is a colour, the batch size a marker and a dash. Bars
and bands are 95 % intervals, or an axis says what else. Colours survive print and colour blindness.
"""

import itertools
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from flatlab.lab.figures.labels import without_common


class Look(NamedTuple):
    """How a line looks, in matplotlib's notation.  dash: "" where there are only markers."""

    color: str
    marker: str
    dash: str | tuple[float, tuple[float, ...]] = "-"

    @property
    def options(self) -> dict[str, Any]:
        """matplotlib's options for such a line."""
        edge = 0.9 * (self.marker == "|")  # which has nothing but its edge
        return {"color": self.color, "marker": self.marker, "ls": self.dash, "lw": 1, "mew": edge}


RATES = {0.01: "#222222", 0.03: "#2b8cbe", 0.05: "#0d0887", 0.1: "#cc4778", 0.2: "#e07b1a"}
BATCHES = "XP<^osDv>p*"
"""Markers of batch sizes 1, 2, 4, 8 and so on."""


def marker_of(batch_size: float) -> str:
    """The marker of a batch size in all figures, by the power of two that is nearest."""
    return BATCHES[min(round(np.log2(batch_size)), len(BATCHES) - 1)]


SETTINGS = {
    "learning rate 0.05, batch size 20": Look(RATES[0.05], marker_of(20)),
    "learning rate 0.1, batch size 20": Look(RATES[0.1], marker_of(20)),
    "learning rate 0.2, batch size 20": Look(RATES[0.2], marker_of(20)),
    "learning rate 0.1, batch size 8": Look("#6b1238", marker_of(8), "--"),
    "learning rate 0.1, batch size 32": Look("#e0709a", marker_of(32), (0, (1.2, 0.8))),
}
"""The five settings of chen2026 and chen2024; the shades of one colour are of one rate."""

OTHERS = ("#2b8cbe", "#c9893a", "#7f7f7f", "#4d6b00", "#b0389b")
"""Settings of other grids take these colours in turn."""

SAMPLES = {
    "train": Look("#999999", "o"),
    "test": Look("#222222", "s"),
    "misclassified": Look("#b2182b", "D", "--"),
}
BOUNDS = {
    "bound_d": Look("#08306b", "v"),
    "bound_c": Look("#2b7bba", "D"),
    "bound_b": Look("#5fa2cc", "s"),
    "bound_a": Look("#b2182b", "o"),
}
"""In the order of the lines from top to bottom: D, C, B, A."""

KINDS: dict[Literal["pooled", "within", "adjusted"], tuple[str, Look]] = {
    "pooled": ("all networks", Look("#222222", "o", "")),
    "within": ("same setting", Look("#c05621", "D", "")),
    "adjusted": ("adjusted for the training loss", Look("#2b7bba", "^", "")),
}
"""Name and look of the kinds of correlation; the papers show the first."""

ORDERED = ("#0d0887", "#7e03a8", "#cc4778", "#ed7953", "#c99a00")
"""Values of an ordered factor: steps of matplotlib's map "plasma", the last two darker."""

COLORS: tuple[str, ...] = ("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#949494")
MARKERS = "o^sDvPX"
DECADES = 1000
"""A logarithmic axis of time begins at the last iteration over this."""

SMALLEST, MIDDLE, LARGEST = 2.2, 3.6, 5.0
"""The sizes of markers, in points."""

MAP, UNKNOWN, DARK_ENOUGH = "viridis", "0.6", 0.85
"""Colours of numbers, of networks that have none, and where the map ends for points on white."""


def look_of_settings(
    settings: Iterable[str], looks: Mapping[str, Look] | None = None
) -> dict[str, Look]:
    """The looks of settings, which are given in words.  own: looks of this figure alone."""
    known = {**SETTINGS, **(looks or {})}
    others = itertools.cycle(map(Look, OTHERS, MARKERS))
    chosen = {s: known[s] if s in known else next(others) for s in dict.fromkeys(settings)}
    sizes = {s: s.partition("batch size ")[2].partition(",")[0] for s in {*chosen} - {*known}}
    markers = {s: marker_of(float(size)) for s, size in sizes.items() if size}
    return chosen | {s: chosen[s]._replace(marker=marker) for s, marker in markers.items()}


def in_order(values: Sequence[Any], factor: str) -> dict[Any, Look]:
    """Looks of the values of an ordered factor: a rate is a colour, a batch size a marker."""
    if factor == "batch_size":
        greys = np.linspace(0, 0.55, len(values))
        return {v: Look(str(grey), marker_of(v)) for v, grey in zip(values, greys, strict=True)}
    steps = np.linspace(0, len(ORDERED) - 1, max(len(values), 2)).round().astype(int)
    colors = [ORDERED[k] for k in steps]
    if {*values} <= {*RATES} and factor == "lr":
        colors = [RATES[value] for value in values]
    markers = itertools.cycle("o" if factor == "lr" else "osD^v")
    return {v: Look(c, next(markers)) for v, c in zip(values, colors, strict=False)}


def handles_of(looks: Mapping[str, Look], ms: float = 4) -> list[Any]:
    """The entries of a legend."""
    from matplotlib.lines import Line2D

    return [Line2D([], [], ms=ms, label=name, **look.options) for name, look in looks.items()]


def legend(
    fig: Any, looks: Mapping[str, Look], ms: float = 4, spare: Any = None, **options: Any
) -> None:
    """A legend above all panels, in as many columns as fit the width of the figure.

    spare: a place without a panel, where it stands instead.
    """
    from matplotlib.lines import Line2D

    handles = handles_of(looks, ms)
    if title := options.pop("title", ""):
        handles.insert(0, Line2D([], [], lw=0, label=title))
    if spare:
        spare.legend(handles=handles, loc="upper left", fontsize=7)
        return
    widths = [0.45 + 0.05 * len(str(handle.get_label())) for handle in handles]  # in inches
    for columns in range(len(widths), 0, -1):
        rows = -(-len(widths) // columns)
        widest = [max(widths[i : i + rows]) for i in range(0, len(widths), rows)]
        if columns == 1 or (len(widest) == columns and sum(widest) <= fig.bbox.width / fig.dpi):
            fig.legend(handles=handles, loc="outside upper left", ncols=columns, **options)
            return


def letters(axes: Iterable[Any]) -> None:
    """A bold letter before the title of each panel: a, b, c."""
    for place, ax in zip(range(len(string.ascii_lowercase)), axes, strict=False):
        ax.set_title(lettered(place, ax.get_title(loc="left")), loc="left")


def lettered(place: int, title: str) -> str:
    """The title of a panel with its letter, which is bold."""
    return rf"$\bf{{{string.ascii_lowercase[place]}}}$  {title}"


def points_of_settings(ax: Any, runs: pd.DataFrame, x: str, y: str, size: float = 2.6) -> None:
    """Networks as points, one quantity against another; a point per run, `size` points wide."""
    for setting, look in look_of_settings(runs["setting"]).items():
        here = runs[runs["setting"] == setting]
        ax.plot(here[x], here[y], ms=size, alpha=0.85, **look._replace(dash="").options)


def legend_of_settings(fig: Any, settings: Iterable[str]) -> None:
    """The settings with the colours and markers of their points, above all panels."""
    looks = look_of_settings(settings)
    title, names = without_common(list(looks))
    points = {names[name]: look._replace(dash="") for name, look in looks.items()}
    legend(fig, points, title=title, handletextpad=0.1)


def interval(ax: Any, values: Any, low: Any, high: Any, y: Any, look: Look) -> None:
    """Correlations as points at heights y, with their intervals."""
    ax.hlines(y, low, high, color=look.color, lw=0.9)
    ax.plot(values, y, ms=3, **look._replace(dash="").options)


def from_minus_one_to_one(ax: Any, label: str) -> None:
    """The horizontal axis of correlations, with a line at zero."""
    ax.axvline(0, color="0.6", lw=0.7, zorder=0.5)
    ax.set(xlim=(-1.05, 1.05), xlabel=label)
    ax.set_xticks([-1, -0.5, 0, 0.5, 1], ["−1", "−0.5", "0", "0.5", "1"])
    ax.grid(axis="x", lw=0.3, color="0.85")


def counted(counts: pd.Series, noun: str) -> str:
    """The number of networks over which a line is the mean, or its range along the line."""
    most = int(counts.max())
    fewest = int(counts[counts > 0].min()) if most else 0
    number = f"{most} {noun}{'s' if most != 1 else ''}"
    return number if fewest == most else f"{fewest} to {number}"


# ---- scales, limits and ticks


def plain_numbers(ax: Any) -> None:
    """Numbers such as 0.02 and 300 on logarithmic axes, between powers of ten where they fit.

    From 10^5 on they are powers of ten.
    """
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            if not super().__call__(x, pos):
                return ""
            number, power, exponent = f"{x:.5g}".partition("e+")
            factor = "" if number == "1" else rf"{number}\cdot "
            return f"${factor}10^{{{int(exponent)}}}$" if power else number

    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_scale() == "log":
            axis.set_major_formatter(Plain())
            axis.set_minor_formatter(Plain(minor_thresholds=(1.5, 0.5)))


def few_labels(axis: Any, values: pd.Series) -> None:
    """Three labels or so on a logarithmic axis of less than two decades, as in narrow panels."""
    from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

    low, high = values.min(), values.max()
    if (span := high / low) < 100:
        kept: list[float] = []  # those that do not come too near the one before
        ticks = LogLocator(subs=(1, 2, 5)) if span > 4 else MaxNLocator(3)
        for tick in ticks.tick_values(low, high):
            if low <= tick <= high and (not kept or tick / kept[-1] > min(span**0.3, 1.9)):
                kept.append(tick)
        even = span < 10 and kept
        axis.set_major_locator(FixedLocator(kept) if even else LogLocator(subs=(1, 3)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter("{x:g}")


def log_spaced(checkpoints: Sequence[float] | np.ndarray) -> bool:
    """Whether the positive checkpoints are spaced more evenly on a logarithmic axis."""
    positive = np.asarray(checkpoints, dtype=float)
    positive = positive[positive > 0]
    if len(positive) < 3:
        return False
    spacings = (np.diff(positive), np.diff(np.log(positive)))
    linear, logarithmic = (gaps.std() / gaps.mean() for gaps in spacings)
    return bool(logarithmic < linear)


def of_iterations(ax: Any, iterations: Sequence[float]) -> str:
    """Set up the horizontal axis, the same for all panels, and return its label.

    Of more than two decades it is logarithmic, and shows the last three.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    positive = [each for each in iterations if each > 0]
    if positive and positive[-1] >= 100 * positive[0]:
        ax.set_xscale("log", nonpositive="mask")
        first = next(each for each in positive if each >= positive[-1] / DECADES)
        ax.set_xlim(first / 1.05, positive[-1] * 1.15)
        ax.xaxis.set_major_locator(LogLocator(numticks=8))
        ax.xaxis.set_minor_formatter(NullFormatter())
        return "iteration" if first == positive[0] else f"iteration, from {first:,.0f} on"
    unit = 1000 if iterations and iterations[-1] >= 10_000 else 1  # room for their labels
    ax.xaxis.set_major_locator(MaxNLocator(6))
    ax.xaxis.set_major_formatter(lambda x, _: f"{x / unit:g}")
    return "iteration (thousands)" if unit > 1 else "iteration"


def mark_clipped(axes: Iterable[Any]) -> None:
    """An arrow at the end of a panel for each number of a line that lies outside."""
    for ax in axes:
        (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
        for line in [each for each in ax.lines if each.get_transform() == ax.transData]:
            x, y = (np.asarray(each, dtype=float) for each in line.get_data())
            shown, look = (x >= left) & (x <= right), {"color": line.get_color(), "ms": 3, "ls": ""}
            for end, marker, outside in ((high, 6, y > high), (low, 7, y < low)):
                if len(place := x[shown & outside]):
                    ax.plot(place, [end] * len(place), marker=marker, clip_on=False, **look)


def span(ax: Any, values: pd.Series, factor: float) -> None:
    """Limits of a vertical axis, of which a logarithmic one has no place for the others.

    factor: from the least and the largest positive value to the ends of a logarithmic axis.

    At both ends of a linear axis a share of the range of the values is free.
    """
    finite = values[np.isfinite(values) & ((values > 0) | (ax.get_yscale() == "linear"))]
    if not len(finite):
        return
    low, high = finite.min(), finite.max()
    if ax.get_yscale() == "log":
        ax.set_ylim(low / factor, high * factor)
    else:
        free = 0.08 * (high - low or abs(high) or 1)
        ax.set_ylim(low - free, high + free)


def of_medians(ax: Any, medians: pd.Series) -> None:
    """A logarithmic vertical axis spans the medians only, since a run may reach down to zero."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    if ax.get_yscale() == "linear":
        ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        ax.yaxis.get_major_formatter().set_useOffset(False)
        return
    span(ax, medians, factor=1.5)
    low, high = ax.get_ylim()
    if high < 300 * low:  # there would be only one or two powers of ten
        subs = (1, 2, 5) if high > 8 * low else (1, 1.5, 2, 3, 5, 7)
        ax.yaxis.set_major_locator(LogLocator(subs=subs))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter(NullFormatter())
