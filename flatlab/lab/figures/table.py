"""Template `Table`: mean and deviation over networks, typeset beside the values in the paper."""

from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.figures.quantities import require, with_parts
from flatlab.lab.figures.render import Settings, Tables
from flatlab.lab.tables.selection import columns_of, end_of_training, hyperparameters
from flatlab.stats.estimate import over_seeds

LEFT, FIRST, LAST = 0.005, 0.24, 0.96
"""Where the names of the rows begin, the first column begins and the last one ends."""

HERE = 0.53
"""Where our numbers end, as a share of a column; the paper's end with it."""

GREY = {"color": "0.45", "style": "italic"}


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """A row per quantity and column: mean, standard deviation and number of networks.

    low, high: Student's 95 % interval of the mean.  paper_mean, paper_sd: printed.
    """
    (table,) = tables.values()
    by = figure["by"]
    chosen = with_parts(end_of_training(table), figure["parts"])
    require(chosen, figure["rows"])
    require(table, [by], "hyper-parameter", hyperparameters(table))
    rows = []
    for quantity, values in columns_of(chosen, list(figure["rows"])).items():
        for key in figure["columns"]:
            finite = values[(chosen[by].values == key) & np.isfinite(values)].astype(float)
            mean, sd, low, high = [np.nan] * 4
            if len(finite):
                mean = finite.mean()
            if len(finite) > 1:
                sd, (low, high) = finite.std(ddof=1), over_seeds("", lambda m: m, finite).interval()
            printed = figure["printed"].get(quantity, {}).get(key, (np.nan, np.nan))
            rows.append([quantity, key, mean, sd, low, high, len(finite), *printed])
    numbers = ["mean", "sd", "low", "high", "networks", "paper_mean", "paper_sd"]
    return pd.DataFrame(rows, columns=["quantity", by, *numbers])


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """Rules and the names of the rows, then the columns."""
    names, columns = figure["rows"], figure["columns"]
    ax = fig.subplots()
    ax.set_axis_off()
    ax.set(xlim=(0, 1), ylim=(-len(names), 1.15))
    for height, thickness in ((1.15, 1.2), (0.0, 0.7), (-len(names), 1.2)):
        ax.axhline(height, color="0", lw=thickness, clip_on=False)
    for number, (name, meaning) in enumerate(names.values()):
        ax.text(LEFT, -number - 0.44, name, fontsize=7.5, va="bottom")
        ax.text(LEFT, -number - 0.56, meaning, fontsize=6.2, va="top", color="0.35")
    width = (LAST - FIRST) / len(columns)
    for number, (key, title) in enumerate(columns.items()):
        rows = frame[frame[figure["by"]] == key].set_index("quantity").loc[list(names)]
        _column(ax, title, rows, FIRST + width * number, width, printed=bool(figure["printed"]))


def _column(
    ax: Any, title: str, rows: pd.DataFrame, left: float, width: float, printed: bool
) -> None:
    start, end = left + 0.07 * width, left + width
    here = left + HERE * width if printed else end
    count = int(rows["networks"].max())
    middle = {"fontsize": 7.5, "ha": "center", "va": "center", "weight": "bold"}
    ax.text((start + end) / 2, 0.87, title, **middle)
    ax.plot([start, end], [0.6, 0.6], color="0", lw=0.5)
    head: dict[str, Any] = {"fontsize": 6.5, "ha": "right", "va": "center"}
    ax.text(here, 0.3, f"here ({count} network{'s' if count != 1 else ''})", **head)
    if printed:
        ax.text(end, 0.3, "the paper", **head, **GREY)
    number: dict[str, Any] = {"fontsize": 7.5, "ha": "right", "va": "bottom"}
    for place, (_, row) in enumerate(rows.iterrows()):
        ax.text(here, -place - 0.44, _with_error(row["mean"], row["sd"]), **number)
        ends = f"[{_number(row['low'])}, {_number(row['high'])}]" if row["networks"] else ""
        ax.text(here, -place - 0.56, ends, fontsize=6.2, ha="right", va="top", color="0.35")
        if printed:
            theirs = _with_error(row["paper_mean"], row["paper_sd"], "not printed")
            ax.text(end, -place - 0.44, theirs, **number, **GREY)


def _with_error(mean: float, sd: float, missing: str = "not measured") -> str:
    if np.isnan(mean):
        return missing
    return _number(mean) + ("" if np.isnan(sd) else f" ± {_number(sd, mean)}")


def _number(value: float, like: float | None = None) -> str:
    """With as many decimals as the number `like` has: 13,518, 326.8, 9.09."""
    size = abs(value if like is None else like)
    decimals = 0 if size >= 1000 else 1 if size >= 100 else 2
    return f"{value:,.{decimals}f}"
