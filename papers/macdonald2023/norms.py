"""macdonald2023, Tables 1 and 2: norms of networks fitted to eight points, beside the paper's.

They are typeset here, since no other paper prints its numbers of runs as a table.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.tables.networks import ResultTables
from flatlab.stats.estimate import over_seeds
from flatlab.stats.trends import mean

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
            average = finite.mean() if len(finite) else np.nan
            spread = [np.nan] * 3
            if len(finite) > 1:
                spread = [finite.std(ddof=1), *over_seeds("", mean, finite).interval()]
            rows.append([quantity, start, average, *spread, len(finite), *printed[place]])
    numbers = ["mean", "sd", "low", "high", "networks", "paper_mean", "paper_sd"]
    return pd.DataFrame(rows, columns=["quantity", "initialization", *numbers])


def draw(fig: Any, frame: pd.DataFrame, figure: Mapping[str, Any]) -> None:
    """A row per quantity; of each initialization a column with our numbers and one with theirs."""
    columns: dict[str, list[str]] = {}
    for title, (_, rows) in zip(TITLES, frame.groupby("initialization", sort=False), strict=True):
        count = int(rows["networks"].max())
        here = f"{title}\nhere ({count} network{'s' if count != 1 else ''})"
        columns[here] = [
            _with_error(*row[["mean", "sd"]])
            + (f"\n[{_number(row['low'])}, {_number(row['high'])}]" if row["networks"] else "")
            for _, row in rows.iterrows()
        ]
        theirs = zip(rows["paper_mean"], rows["paper_sd"], strict=True)
        columns[f"{title}\nthe paper"] = [_with_error(*numbers) for numbers in theirs]
    ax = fig.subplots()
    ax.set_axis_off()
    table = ax.table(
        [*zip(*columns.values(), strict=True)],
        rowLabels=[f"{name}\n{meaning}" for name, meaning in NORMS.values()],
        colLabels=[*columns],
        colLoc="right",
        edges="horizontal",
        bbox=(0.26, 0, 0.74, 1),
    )
    table.auto_set_font_size(False)
    for (row, column), cell in table.get_celld().items():
        look = GREY if column >= 0 and column % 2 else {}
        cell.set_linewidth(0.5)
        cell.set_text_props(fontsize=7.5 if row else 6.5, **look)


def _with_error(mean: float, sd: float) -> str:
    if np.isnan(mean):
        return "not measured"
    return _number(mean) + ("" if np.isnan(sd) else f" ± {_number(sd, mean)}")


def _number(value: float, like: float | None = None) -> str:
    """With as many decimals as the number `like` has: 13,518, 326.8, 9.09."""
    size = abs(value if like is None else like)
    decimals = 0 if size >= 1000 else 1 if size >= 100 else 2
    return f"{value:,.{decimals}f}"
