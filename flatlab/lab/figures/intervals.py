"""Template `Intervals`: correlations with their intervals, one below the other.

With `pairs` of quantities Pearson's; with `columns` Kendall's of sharpness and errors, by
definition and radius, beside what the paper prints. seaborn's pointplot would compute intervals
with a bootstrap of its own.
"""

import itertools
from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.figures import labels
from flatlab.lab.figures.labels import definition_in_words
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.sharpness_grid import at_radius, column_of, taus
from flatlab.lab.figures.style import KINDS, Look, legend
from flatlab.lab.tables.networks import ResultTables

SAME, OTHER, NEITHER = "#0173b2", "#d55e00", "0.35"
"""Colours of a tau whose sign is that of the printed one, or another, and where none is printed."""

WITH_INTERVALS = 3
"""The most columns in which intervals are printed as numbers too."""

STRONG = 0.5
"""The absolute tau from which on numbers are bold, as in the paper."""


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """A correlation with its interval per row."""
    return (_frame_of_pairs if figure["pairs"] else _frame_of_ranks)(figure, tables)


def _frame_of_pairs(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """By pair, experiment and kind, with the number of its networks.

    kind: `pooled`, over all networks, `within` settings, or `adjusted` for the training loss.  A
    pair has no value where one of its quantities was not measured in an experiment.
    """
    rows = []
    columns = {name: column_of(figure, name) for pair in figure["pairs"] for name in pair}
    titles = labels.headings(tables.tables)
    for experiment, networks in tables.items():
        result = networks.drawn_correlations(columns)
        for kind in KINDS:
            known = zip(figure["pairs"], result.of_pairs(kind, figure["pairs"]), strict=True)
            rows += [
                [titles[experiment], kind, x, y, *numbers, result.runs_used(x, y)]
                for (x, y), numbers in known
            ]
    header = ["experiment", "kind", "x", "y", "rho", "low", "high", "runs"]
    return pd.DataFrame(rows, columns=header)


def _frame_of_ranks(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """By experiment, definition, radius, ordinate and group of networks ("" for all): tau, over so
    many `networks` of all; `paper`, the printed tau; `same_sign`.
    """
    parts, titles = [], labels.headings(tables.tables)
    for experiment, every in tables.items():
        networks = every.at_most(**figure["at_most"])
        about = pd.DataFrame(
            {n: networks.labels(n) for n in figure["groups"]}, range(networks.count)
        )
        printed = figure["printed"].get(experiment, {})
        definitions = list(printed) or every.data["definition"].values.tolist()
        places = itertools.product(definitions, range(every.data.sizes["radius_index"]))
        for (definition, index), (number, y) in itertools.product(
            places, enumerate(figure["columns"])
        ):
            radii = every.values(at_radius(definition, index, "radius"))
            if not len(radii) or np.isnan(radii[0]):
                continue
            x = networks.values(at_radius(definition, index))
            points = about.assign(x=x, y=networks.values(column_of(figure, y)))
            place = {"experiment": titles[experiment], "definition": definition, "ordinate": y}
            theirs = [*(printed[definition][number] if printed else ()), *[np.nan] * (index + 1)]
            rows = taus(points, figure).assign(radius=radii[0], paper=theirs[index], **place)
            rows.loc[rows["group"] != "", "paper"] = np.nan
            parts.append(rows)
    whole = pd.concat(parts, ignore_index=True)
    agrees = np.sign(whole["tau"]) == np.sign(whole["paper"])
    return whole.assign(same_sign=agrees.where(whole[["tau", "paper"]].notna().all(axis=1)))


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A line per pair of quantities; or per definition and radius, with numbers beside it."""
    (_correlations if figure["pairs"] else _ranks)(fig, frame, figure)


def _correlations(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A line per pair, with gaps between the groups of pairs."""
    pairs = figure["pairs"]
    groups = list(dict.fromkeys(first for first, _ in pairs))
    places = np.array([-n - 0.7 * groups.index(first) for n, (first, _) in enumerate(pairs)])
    experiments = list(dict.fromkeys(frame["experiment"]))
    axes = fig.subplots(1, len(experiments), sharex=True, sharey=True, squeeze=False)[0]
    for experiment, ax in zip(experiments, axes, strict=True):
        rows = frame[frame["experiment"] == experiment]
        # a point and a bar per correlation, its kinds one above the other
        for shift, (kind, (color, marker, _)) in zip((0.25, 0, -0.25), KINDS.items(), strict=True):
            here, y = rows[rows["kind"] == kind], places + shift
            ax.plot(here["rho"], y, ms=3, **Look(color, marker, "").options)
            ax.hlines(y, here["low"], here["high"], color=color, lw=0.9)
        for place, rho in zip(places, rows["rho"][rows["kind"] == "pooled"], strict=True):
            if np.isnan(rho):
                ax.text(0, place, "undefined", ha="center", va="center", color="0.5")
        ax.axvline(0, color="0.6", lw=0.7, zorder=0.5)
        ax.set_title(experiment, loc="left")
        ax.set(xlim=(-1.05, 1.05), xlabel=r"Pearson's $\rho$", xticks=[-1, -0.5, 0, 0.5, 1])
        ax.grid(axis="x", lw=0.3, color="0.85")
    names = [" and ".join(labels.label_of(figure, name) for name in pair) for pair in pairs]
    axes[0].set_yticks(places, names, fontsize=6.5)
    legend(fig, {name: Look(color, marker) for color, marker, name in KINDS.values()})


def _ranks(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A line per definition and radius; for each column points with intervals, then numbers."""
    whole, columns = frame[frame["group"] == ""], figure["columns"]
    keys = ["experiment", "definition", "radius"]
    lines = whole.groupby(keys, sort=False).ngroup()
    experiments = list(dict.fromkeys(whole["experiment"]))
    several = len(experiments) > 1  # each then has a line for its name
    started = whole["experiment"].map(experiments.index) + 1
    whole = whole.assign(place=-lines - several * started)
    axes = fig.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for ax, y in zip(axes, columns, strict=True):
        here = whole[whole["ordinate"] == y]
        _column(ax, here, labels.label_of(figure, y), len(columns) <= WITH_INTERVALS)
        for _, block in here.groupby(keys[:2], sort=False):
            ax.axhline(block["place"].max() + 0.5, color="0.8", lw=0.5)
    rows = whole.drop_duplicates("place")
    axes[0].set_yticks(rows["place"], [f"{radius:g}" for radius in rows["radius"]], fontsize=6)
    beside: dict[str, Any] = {"xycoords": axes[0].get_yaxis_transform(), "fontsize": 6.5}
    beside |= {"va": "center", "textcoords": "offset points"}
    for _, block in rows.groupby(keys[:2], sort=False):
        words = definition_in_words(block["definition"].iloc[0]).replace(", ", "\n")
        place = (0, block["place"].mean())
        axes[0].annotate(words, place, (-34, 0), ha="right", **beside)
    for name, block in rows.groupby("experiment", sort=False) if several else ():
        heading = f"{name}, {block['networks'].max():.0f} networks"
        place = (0, block["place"].max() + 0.95)
        axes[0].annotate(heading, place, (0, 0), ha="left", in_layout=False, **beside)
    _legend(fig, whole)


def _legend(fig: Any, whole: pd.DataFrame) -> None:
    """What the colours of the signs mean, where they occur."""
    from matplotlib.lines import Line2D

    names = {SAME: "same sign as printed", OTHER: "other sign", NEITHER: "none printed"}
    colors = {_color(row) for _, row in whole.iterrows()}
    handles = [
        Line2D([], [], color=color, marker="o", ms=3, lw=1, label=name)
        for color, name in names.items()
        if color in colors
    ]
    if whole["paper"].notna().any():
        handles.append(Line2D([], [], ls="", marker="|", color="0", ms=6, label="the paper"))
    fig.legend(handles=handles, loc="outside upper left", ncols=4, fontsize=6.5)


def _column(ax: Any, rows: pd.DataFrame, title: str, intervals: bool) -> None:
    """Points and bars from -1 to 1, and the numbers to the right of them."""
    first, last = (1.65, 3.4) if intervals else (2.3, 4.2)
    text: dict[str, Any] = {"fontsize": 6, "ha": "right", "in_layout": False}
    for x, name in ((first, r"$\tau$"), (2.85, "95 %" if intervals else ""), (last, "paper")):
        ax.text(x, 0.6, name, va="bottom", **text)
    text["va"] = "center"
    for _, row in rows.iterrows():
        color, y = _color(row), row["place"]
        ax.hlines(y, row["low"], row["high"], color=color, lw=1)
        ax.plot(row["tau"], y, "o", color=color, ms=2.5, mew=0)
        ax.plot(row["paper"], y, "|", color="0", ms=5, mew=0.9)
        if intervals and row["tau"] == row["tau"]:
            ends = f"[{_digits(row['low'])}, {_digits(row['high'])}]"
            ax.text(2.85, y, ends, **text, color="0.35")
        for x, number, shade in ((first, row["tau"], color), (last, row["paper"], "0")):
            weight = "bold" if abs(number) >= STRONG else "normal"
            ax.text(x, y, _digits(number), weight=weight, color=shade, **text)
    ax.axvline(0, color="0.6", lw=0.5, zorder=0.5)
    for end in (-1, 1):
        ax.axvline(end, color="0.9", lw=0.5, zorder=0.5)
    ax.set(xlim=(-1.05, last + 0.05), ylim=(rows["place"].min() - 0.6, 0.6))
    ax.set_xticks([-1, 0, 1], ["−1", "0", "1"], fontsize=6)
    ax.tick_params(axis="y", length=0)
    ax.patch.set_visible(False)  # names of experiments reach across
    ax.spines["bottom"].set_bounds(-1, 1)
    ax.spines[["top", "right", "left"]].set_visible(False)
    if rows["place"].max() == 0:  # of one experiment
        title += f"\n{rows['networks'].max():.0f} networks"
    ax.set_title(title, loc="left", fontsize=6.5, pad=11)


def _color(row: pd.Series) -> str:
    if row["same_sign"] != row["same_sign"] or row["same_sign"] is None:
        return NEITHER
    return SAME if row["same_sign"] else OTHER


def _digits(number: float) -> str:
    return "" if number != number else labels.two_digits(number)
