"""Template `Table`: mean and deviation over networks, typeset beside what the paper prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.plotting.quantities import refuse_unknown, require, with_parts
from flatlab.stats.trends import over_seeds
from flatlab.tables.selection import columns_of, end_of_training, hyperparameters

LEFT, FIRST, LAST = 0.005, 0.24, 0.96
"""Where the names of the rows begin, the first column begins and the last one ends."""

HERE = 0.53
"""Where our numbers end, as a share of a column; the paper's end with it."""

GREY = {"color": "0.45", "style": "italic"}


def frame(
    figure: Mapping[str, Any],
    tables: Mapping[str, xr.Dataset],
    correlations: Mapping[str, xr.Dataset],
) -> pd.DataFrame:
    """A row per quantity and column: mean, standard deviation and number of networks.

    low, high: the 95 % percentile bootstrap interval of the mean.  paper_mean, paper_sd: printed.
    """
    (table,) = tables.values()
    chosen = with_parts(end_of_training(table), figure["parts"])
    require(chosen, figure["rows"])
    refuse_unknown(table, [figure["by"]], hyperparameters(table), "hyper-parameter")
    group = chosen[figure["by"]].values
    rows = []
    for quantity in figure["rows"]:
        values = columns_of(chosen, [quantity])[quantity].astype(float)
        for key in figure["columns"]:
            printed = figure["printed"].get(quantity, {}).get(key, (np.nan, np.nan))
            there = values[(group == key) & np.isfinite(values)]
            head = {"quantity": quantity, figure["by"]: key}
            theirs = dict(zip(("paper_mean", "paper_sd"), printed, strict=True))
            rows.append({**head, **_summary(there), **theirs})
    return pd.DataFrame(rows)


def _summary(values: np.ndarray) -> dict[str, float]:
    if not len(values):
        return {**dict.fromkeys(("mean", "sd", "low", "high"), np.nan), "networks": 0}
    low, high = over_seeds("mean", lambda mean: mean, values).interval()
    sd = values.std(ddof=1) if len(values) > 1 else np.nan
    return {"mean": values.mean(), "sd": sd, "low": low, "high": high, "networks": len(values)}


def draw(fig: Any, frame: pd.DataFrame, figure: Mapping[str, Any]) -> None:
    """Ours beside the paper's in each column."""
    names = figure["rows"]
    ax = fig.subplots()
    ax.set_axis_off()
    ax.set_xlim(0, 1)
    ax.set_ylim(-len(names), 1.15)
    _header(ax, frame, figure)
    ours: dict[str, Any] = {"fontsize": 10, "ha": "right", "va": "bottom"}
    for number, (quantity, (name, meaning)) in enumerate(names.items()):
        middle = -number - 0.5
        ax.text(LEFT, middle + 0.06, name, fontsize=10, va="bottom")
        ax.text(LEFT, middle - 0.06, meaning, fontsize=8, va="top", color="0.35")
        for key, (_, here, end) in _places(figure).items():
            rows = frame[(frame["quantity"] == quantity) & (frame[figure["by"]] == key)]
            row = rows.iloc[0]
            ax.text(here, middle + 0.06, _with_error(row["mean"], row["sd"]), **ours)
            ends = f"[{_number(row['low'])}, {_number(row['high'])}]" if row["networks"] else ""
            ax.text(here, middle - 0.06, ends, fontsize=8, ha="right", va="top", color="0.35")
            if figure["printed"]:
                theirs = _with_error(row["paper_mean"], row["paper_sd"], "not printed")
                ax.text(end, middle + 0.06, theirs, **ours, **GREY)


def _places(figure: Mapping[str, Any]) -> dict[str, tuple[float, float, float]]:
    """Of each column: where it begins, where our numbers end, and where it ends."""
    width = (LAST - FIRST) / len(figure["columns"])
    share = HERE if figure["printed"] else 1.0
    return {
        key: (
            FIRST + width * (number + 0.07),
            FIRST + width * (number + share),
            FIRST + width * (number + 1),
        )
        for number, key in enumerate(figure["columns"])
    }


def _header(ax: Any, frame: pd.DataFrame, figure: Mapping[str, Any]) -> None:
    """Rules above, below and under the names of the columns, as in a printed table."""
    for height, width in ((1.15, 1.2), (0.0, 0.7), (-len(figure["rows"]), 1.2)):
        ax.axhline(height, color="0", lw=width, clip_on=False)
    for key, (start, here, end) in _places(figure).items():
        count = int(frame["networks"][frame[figure["by"]] == key].max())
        title = {"fontsize": 10, "ha": "center", "va": "center", "weight": "bold"}
        ax.text((start + end) / 2, 0.87, figure["columns"][key], **title)
        ax.plot([start, end], [0.6, 0.6], color="0", lw=0.5)
        below: dict[str, Any] = {"fontsize": 9, "ha": "right", "va": "center"}
        ax.text(here, 0.3, f"here ({count} network{'s' if count != 1 else ''})", **below)
        if figure["printed"]:
            ax.text(end, 0.3, "the paper", **below, **GREY)


def _with_error(mean: float, sd: float, missing: str = "not measured") -> str:
    if mean != mean:
        return missing
    return _number(mean) + (f" ± {_number(sd, mean)}" if sd == sd else "")


def _number(value: float, like: float | None = None) -> str:
    """With as many decimals as a number `like` it has: 13,518, 326.8, 9.09."""
    size = abs(value if like is None else like)
    decimals = 0 if size >= 1000 else 1 if size >= 100 else 2
    return f"{value:,.{decimals}f}"
