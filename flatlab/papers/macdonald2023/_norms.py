"""What tables 1 and 2 have in common: norms of networks from two initializations, typeset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.papers.macdonald2023._frequencies import (
    FIRST_LAYER,
    GAUSSIAN,
    JACOBIAN,
    QUANTITIES,
    RELU,
    SHARPNESS,
    by_frequency,
)
from flatlab.stats.trends import over_seeds

PRINTED = {
    (GAUSSIAN, JACOBIAN): {"high": (326.80, 182.51), "low": (84.07, 49.30)},
    (GAUSSIAN, SHARPNESS): {"high": (13517.61, 3871.97), "low": (18353.54, 5751.98)},
    (GAUSSIAN, FIRST_LAYER): {"high": (9.09, 0.34), "low": (0.56, 0.02)},
    (RELU, JACOBIAN): {"high": (121.59, 80.79), "low": (42.96, 7.82)},
    (RELU, SHARPNESS): {"high": (14211.05, 4767.26), "low": (9922.45, 3330.37)},
    (RELU, FIRST_LAYER): {"high": (9.61, 0.28), "low": (9.56, 0.16)},
}
"""Mean and standard deviation over 10 trials that macdonald2023 prints in tables 1 and 2."""

FREQUENCIES = ("high", "low")
ROWS = {
    JACOBIAN: ("Jacobian norm", r"max over the points of $|f'(x)|$"),
    SHARPNESS: ("sharpness", r"$\lambda_{\max}$ of the Hessian of the loss"),
    FIRST_LAYER: ("first layer weight norm", r"$\|W_1\|_2$"),
}
LEFT = 0.005
COLUMNS = {("high", "here"): 0.43, ("high", "paper"): 0.6, ("low", "here"): 0.79}
COLUMNS[("low", "paper")] = 0.96
"""Where columns end, as shares of the width."""


def frame(grid: str, table: xr.Dataset) -> pd.DataFrame:
    """A row per quantity and frequency: mean, standard deviation and number of networks.

    low, high: the 95 % percentile bootstrap interval of the mean.  paper_mean, paper_sd: printed.
    """
    networks = by_frequency(grid, table)
    rows = []
    for quantity in QUANTITIES:
        for frequency in FREQUENCIES:
            values = networks[quantity][networks["frequency"] == frequency].to_numpy(dtype=float)
            printed = dict(
                zip(("paper_mean", "paper_sd"), PRINTED[grid, quantity][frequency], strict=True)
            )
            head = {"quantity": quantity, "frequency": frequency}
            rows.append({**head, **_summary(values[np.isfinite(values)]), **printed})
    return pd.DataFrame(rows)


def _summary(values: np.ndarray) -> dict[str, float]:
    if not len(values):
        return {**dict.fromkeys(("mean", "sd", "low", "high"), np.nan), "networks": 0}
    low, high = over_seeds("mean", lambda mean: mean, values).interval()
    sd = values.std(ddof=1) if len(values) > 1 else np.nan
    return {"mean": values.mean(), "sd": sd, "low": low, "high": high, "networks": len(values)}


def draw(fig: Any, frame: pd.DataFrame) -> None:
    """Three rows, ours beside the paper's for each of the two initializations."""
    ax = fig.subplots()
    ax.set_axis_off()
    ax.set_xlim(0, 1)
    ax.set_ylim(-len(ROWS), 1.15)
    _header(ax, frame)
    for number, (quantity, (name, meaning)) in enumerate(ROWS.items()):
        middle = -number - 0.5
        ax.text(LEFT, middle + 0.06, name, fontsize=10, va="bottom")
        ax.text(LEFT, middle - 0.06, meaning, fontsize=8, va="top", color="0.35")
        for frequency in FREQUENCIES:
            rows = frame[(frame["quantity"] == quantity) & (frame["frequency"] == frequency)]
            row = rows.iloc[0]
            place, printed = COLUMNS[frequency, "here"], COLUMNS[frequency, "paper"]
            ours = {"fontsize": 10, "ha": "right", "va": "bottom"}
            ax.text(place, middle + 0.06, _with_error(row["mean"], row["sd"]), **ours)
            ends = f"[{_number(row['low'])}, {_number(row['high'])}]" if row["networks"] else ""
            ax.text(place, middle - 0.06, ends, fontsize=8, ha="right", va="top", color="0.35")
            theirs = _with_error(row["paper_mean"], row["paper_sd"])
            ax.text(printed, middle + 0.06, theirs, **ours, color="0.45", style="italic")


def _header(ax: Any, frame: pd.DataFrame) -> None:
    """Rules above, below and under the names of the columns, as in a printed table."""
    for height, width in ((1.15, 1.2), (0.0, 0.7), (-len(ROWS), 1.2)):
        ax.axhline(height, color="0", lw=width, clip_on=False)
    for frequency in FREQUENCIES:
        here, paper = COLUMNS[frequency, "here"], COLUMNS[frequency, "paper"]
        count = int(frame["networks"][frame["frequency"] == frequency].max())
        left = here - 0.165
        title = f"{frequency} frequency"
        ax.text(
            (left + paper) / 2, 0.87, title, fontsize=10, ha="center", va="center", weight="bold"
        )
        ax.plot([left, paper], [0.6, 0.6], color="0", lw=0.5)
        text = f"here ({count} network{'s' if count != 1 else ''})"
        ax.text(here, 0.3, text, fontsize=9, ha="right", va="center")
        ax.text(
            paper,
            0.3,
            "the paper",
            fontsize=9,
            ha="right",
            va="center",
            color="0.45",
            style="italic",
        )


def _with_error(mean: float, sd: float) -> str:
    if mean != mean:
        return "not measured"
    return _number(mean) + (f" ± {_number(sd, mean)}" if sd == sd else "")


def _number(value: float, like: float | None = None) -> str:
    """With as many decimals as a number `like` it has: 13,518, 326.8, 9.09."""
    size = abs(value if like is None else like)
    decimals = 0 if size >= 1000 else 1 if size >= 100 else 2
    return f"{value:,.{decimals}f}"
