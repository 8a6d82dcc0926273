"""Template `RankTable`: Kendall's tau of sharpness and errors beside the printed, and as numbers.

A line per definition and radius.
"""

import itertools
from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.figures import labels
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import Look, legend
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.andriushchenko2023._names import sharpness
from flatlab.papers.andriushchenko2023.sharpness_grid import column_of, definition_in_words, taus

SAME, OTHER, NEITHER = "#0173b2", "#d55e00", "0.35"
"""Colours of a tau whose sign is that of the printed one, or another, and where none is printed."""

WITH_INTERVALS = 3
"""The most columns in which intervals are printed as numbers too."""

STRONG = 0.5
"""The absolute tau from which on numbers are bold, as in the paper."""


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """A row per experiment, definition, radius, ordinate and group of networks ("" for all): tau
    with its interval, over so many `networks`; `paper`, the printed tau; `same_sign`.
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
            radii = every.values(f"sharpness_radius[{definition}, {index}]")
            if not len(radii) or np.isnan(radii[0]):
                continue
            x = networks.values(sharpness(definition, index))
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
    """A line per definition and radius; for each column points with intervals, then numbers."""
    whole, columns = frame[frame["group"] == ""], figure["columns"]
    keys = ["experiment", "definition", "radius"]
    experiments = list(dict.fromkeys(whole["experiment"]))
    order = {"experiment": experiments, "definition": sorted({*whole["definition"]}, key=_by_scale)}
    ordered = {name: pd.Categorical(whole[name], values) for name, values in order.items()}
    lines = whole.assign(**ordered).groupby(keys, observed=True).ngroup()
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
    head: dict[str, Any] = {"ha": "right", "fontsize": 6, "textcoords": "offset points"}
    axes[0].annotate(r"radius $\rho$", (-1.05, 0.6), (-3, 0), **head)
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


def _by_scale(definition: str) -> tuple[int, str, str]:
    """Standard before adaptive before normalized logits; then by neighbourhood and case."""
    case, scale, norm = definition.split("-")
    return ["standard", "adaptive", "normalized"].index(scale), norm, case


def _legend(fig: Any, whole: pd.DataFrame) -> None:
    """What the colours of the signs mean, where they occur."""
    names = {SAME: "same sign as printed", OTHER: "other sign", NEITHER: "none printed"}
    colors = {_color(row) for _, row in whole.iterrows()}
    looks = {name: Look(color, "o") for color, name in names.items() if color in colors}
    if whole["paper"].notna().any():
        looks["the paper"] = Look("0", "|", "")
    legend(fig, looks, fontsize=6.5)


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
        for x, number in ((first, row["tau"]), (last, row["paper"])):
            weight = "bold" if abs(number) >= STRONG else "normal"
            ax.text(x, y, _digits(number), weight=weight, color="0", **text)
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
