"""Template `RankTable`: Kendall's tau of sharpness and errors, and the printed one, as numbers.

A line per definition and radius; a cell is grey where the interval of tau excludes 0.
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

NUMBERS = ["tau", "low", "high", "paper"]
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
    """A table per experiment, a line per definition and radius: tau, and the paper's behind it."""
    from seaborn import heatmap

    columns, whole = figure["columns"], frame[frame["group"] == ""]
    definitions = sorted({*whole["definition"]}, key=_by_scale)
    whole = whole.assign(definition=pd.Categorical(whole["definition"], definitions))
    tables = whole.groupby("experiment", sort=False)
    heights = {"height_ratios": [*tables.size()]}
    for ax, (name, rows) in zip(
        fig.subplots(len(tables), 1, squeeze=False, **heights).flat, tables, strict=True
    ):
        rows = rows.sort_values("definition", kind="stable")
        words = [_cell(row, len(columns) <= WITH_INTERVALS) for _, row in rows.iterrows()]
        sizes = rows["tau"].abs().where(rows["low"] * rows["high"] > 0, 0)
        shape = -1, len(columns)
        cells = {"annot": np.reshape(words, shape), "fmt": "", "annot_kws": {"fontsize": 6}}
        options = {"cmap": "Greys", "vmin": 0, "vmax": 2, "cbar": False, "linewidths": 0.5}
        heatmap(sizes.to_numpy().reshape(shape), ax=ax, **cells, **options)
        for text, (_, row) in zip(ax.texts, rows.iterrows(), strict=True):
            text.set(color=_color(row), weight="bold" if abs(row["tau"]) >= STRONG else "normal")
        lines = rows.iloc[:: len(columns)]
        names = [
            rf"{definition_in_words(definition)}, $\rho$ = {radius:g}"
            for definition, radius in zip(lines["definition"], lines["radius"], strict=True)
        ]
        ax.set_yticks(np.arange(len(lines)) + 0.5, names, rotation=0, fontsize=6)
        titles = [labels.label_of(figure, y) for y in columns]
        ax.set_xticks(np.arange(len(columns)) + 0.5, titles, rotation=0, fontsize=6.5)
        ax.tick_params(length=0)
        ax.set_title(f"{name}, {rows['networks'].max():.0f} networks", loc="left")
    meanings = {SAME: "same sign as printed", OTHER: "other sign", NEITHER: "none printed"}
    used = {_color(row) for _, row in whole.iterrows()}
    legend(fig, {said: Look(color, "s", "") for color, said in meanings.items() if color in used})


def _by_scale(definition: str) -> tuple[int, str, str]:
    """Standard before adaptive before normalized logits; then by neighbourhood and case."""
    case, scale, norm = definition.split("-")
    return ["standard", "adaptive", "normalized"].index(scale), norm, case


def _color(row: pd.Series) -> str:
    if row["same_sign"] != row["same_sign"] or row["same_sign"] is None:
        return NEITHER
    return SAME if row["same_sign"] else OTHER


def _cell(row: pd.Series, interval: bool) -> str:
    """Tau, its interval if there is room for it, and in brackets what is printed."""
    tau, low, high, paper = ("" if n != n else labels.two_digits(n) for n in row[NUMBERS])
    ends = f" [{low}, {high}]" if interval and low else ""
    return f"{tau}{ends}" + (f" ({paper})" if paper else "")
