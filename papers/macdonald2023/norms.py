"""macdonald2023, Tables 1 and 2: norms of networks fitted to eight points, beside the paper's.

They are typeset here, since no other paper prints its numbers of runs as a table.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.tables.networks import ResultTables
from flatlab.stats.estimate import over_seeds

GAUSSIAN, RELU = "regression-gaussian-grid", "regression-relu-grid"
ACTIVATIONS = {GAUSSIAN: "Gaussian", RELU: "ReLU"}
INITIALIZATIONS = {
    GAUSSIAN: {"high": "framework", "low": "low-frequency"},
    RELU: {"high": "high-frequency", "low": "framework"},
}
"""How rough the function of a freshly initialized network is: macdonald2023, App. C.3."""

JACOBIAN, SHARPNESS, FIRST_LAYER = "jacobian_norm", "hessian_lambda_max", "weight_norm[0]"
"""The rows of tables 1 and 2. The norm of the first layer is the spectral one, which for one input
is also the Frobenius norm."""

NORMS = {
    "jacobian_norm": ("Jacobian norm", r"max over the points of $|f'(x)|$"),
    "hessian_lambda_max": ("sharpness", r"$\lambda_{\max}$ of the Hessian of the loss"),
    "first_layer_norm": ("first layer weight norm", r"$\|W_1\|_2$"),
}
"""The rows: each with a name and an explanation."""

COLUMNS = {"first_layer_norm": "weight_norm[fc1]"}
TITLES = ("high frequency", "low frequency")
PRINTED = {
    GAUSSIAN: {
        "framework": ((326.80, 182.51), (13517.61, 3871.97), (9.09, 0.34)),
        "low-frequency": ((84.07, 49.30), (18353.54, 5751.98), (0.56, 0.02)),
    },
    RELU: {
        "high-frequency": ((121.59, 80.79), (14211.05, 4767.26), (9.61, 0.28)),
        "framework": ((42.96, 7.82), (9922.45, 3330.37), (9.56, 0.16)),
    },
}
"""By grid and initialization, of high frequency and of low: mean and standard deviation of each of
`NORMS` over 10 trials."""

LEFT, FIRST, LAST = 0.005, 0.24, 0.96
"""Where the names of the rows begin, the first column begins and the last one ends."""

HERE = 0.53
"""Where our numbers end, as a share of a column; the paper's end with it."""

GREY = {"color": "0.45", "style": "italic"}


def frame(figure: Mapping[str, Any], tables: ResultTables) -> pd.DataFrame:
    """A row per quantity and initialization: mean, standard deviation and number of networks.

    low, high: Student's 95 % interval of the mean.  paper_mean, paper_sd: printed.
    """
    [(grid, networks)] = tables.items()
    starts, rows = networks.labels("initialization"), []
    for place, quantity in enumerate(NORMS):
        values = networks.values(COLUMNS.get(quantity, quantity))
        for start, printed in PRINTED[grid].items():
            finite = values[(starts == start) & np.isfinite(values)]
            mean, sd, low, high = [np.nan] * 4
            if len(finite):
                mean = finite.mean()
            if len(finite) > 1:
                sd, (low, high) = finite.std(ddof=1), over_seeds("", lambda m: m, finite).interval()
            rows.append([quantity, start, mean, sd, low, high, len(finite), *printed[place]])
    numbers = ["mean", "sd", "low", "high", "networks", "paper_mean", "paper_sd"]
    return pd.DataFrame(rows, columns=["quantity", "initialization", *numbers])


def draw(fig: Any, frame: pd.DataFrame, figure: Mapping[str, Any]) -> None:
    """Rules and the names of the rows, then the columns."""
    ax = fig.subplots()
    ax.set_axis_off()
    ax.set(xlim=(0, 1), ylim=(-len(NORMS), 1.15))
    for height, thickness in ((1.15, 1.2), (0.0, 0.7), (-len(NORMS), 1.2)):
        ax.axhline(height, color="0", lw=thickness, clip_on=False)
    for number, (name, meaning) in enumerate(NORMS.values()):
        ax.text(LEFT, -number - 0.44, name, fontsize=7.5, va="bottom")
        ax.text(LEFT, -number - 0.56, meaning, fontsize=6.2, va="top", color="0.35")
    columns = frame.groupby("initialization", sort=False)
    width = (LAST - FIRST) / len(columns)
    for number, ((_, rows), title) in enumerate(zip(columns, TITLES, strict=True)):
        _column(ax, title, rows, FIRST + width * number, width)


def _column(ax: Any, title: str, rows: pd.DataFrame, left: float, width: float) -> None:
    start, here, end = left + 0.07 * width, left + HERE * width, left + width
    count = int(rows["networks"].max())
    middle = {"fontsize": 7.5, "ha": "center", "va": "center", "weight": "bold"}
    ax.text((start + end) / 2, 0.87, title, **middle)
    ax.plot([start, end], [0.6, 0.6], color="0", lw=0.5)
    head: dict[str, Any] = {"fontsize": 6.5, "ha": "right", "va": "center"}
    ax.text(here, 0.3, f"here ({count} network{'s' if count != 1 else ''})", **head)
    ax.text(end, 0.3, "the paper", **head, **GREY)
    number: dict[str, Any] = {"fontsize": 7.5, "ha": "right", "va": "bottom"}
    for place, (_, row) in enumerate(rows.iterrows()):
        ax.text(here, -place - 0.44, _with_error(row["mean"], row["sd"]), **number)
        ends = f"[{_number(row['low'])}, {_number(row['high'])}]" if row["networks"] else ""
        ax.text(here, -place - 0.56, ends, fontsize=6.2, ha="right", va="top", color="0.35")
        theirs = _with_error(row["paper_mean"], row["paper_sd"])
        ax.text(end, -place - 0.44, theirs, **number, **GREY)


def _with_error(mean: float, sd: float) -> str:
    if np.isnan(mean):
        return "not measured"
    return _number(mean) + ("" if np.isnan(sd) else f" ± {_number(sd, mean)}")


def _number(value: float, like: float | None = None) -> str:
    """With as many decimals as the number `like` has: 13,518, 326.8, 9.09."""
    size = abs(value if like is None else like)
    decimals = 0 if size >= 1000 else 1 if size >= 100 else 2
    return f"{value:,.{decimals}f}"
