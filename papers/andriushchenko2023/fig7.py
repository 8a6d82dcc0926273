"""andriushchenko2023, Figure 7: what predicts the test loss of diagonal linear networks."""

import pandas as pd

from flatlab.lab.figures.render import Settings
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.andriushchenko2023._networks import COLUMNS, GRID, fitted, not_fitted, that_fit
from flatlab.papers.andriushchenko2023.sharpness_grid import tau_of

PANELS = {
    "norm": ("half_trace_balanced", "norm_1"),
    "trace": ("trace_none", "test_loss"),
    "rescaled trace": ("trace_balanced", "test_loss"),
    "both": ("trace_balanced", "lambda_max_balanced"),
    "rescaled eigenvalue": ("lambda_max_balanced", "test_loss"),
    "printed": ("trace_printed", "test_loss"),
}
"""Abscissa and ordinate."""


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """Rows `run`: a network in a panel.  Rows `tau`: tau, low, high of a panel, over `networks`;
    `not_fitted` is the number of those that did not reach the training loss; `more`, by how much
    Fisher's z of the rescaled trace exceeds that of the trace.
    """
    drawn = (PANELS[panel] for panel in ("rescaled trace", "trace"))
    pairs = [(COLUMNS[x], COLUMNS[y]) for x, y in drawn]
    ours, plain = that_fit(tables.table(GRID)).taus(*pairs, among="pool")
    networks = fitted(tables.table(GRID))
    networks["half_trace_balanced"] = networks["trace_balanced"] / 2
    parts = []
    for panel, (x, y) in PANELS.items():
        points = networks.rename(columns={x: "x", y: "y"})[["run", "lr", "initial_trace", "x", "y"]]
        parts.append(points.assign(row="run", panel=panel))
        tau, low, high, count = tau_of(points).numbers
        row = {"row": "tau", "panel": panel, "networks": count, "tau": tau}
        row |= {"low": low, "high": high, "not_fitted": not_fitted(tables.table(GRID))}
        if panel == "rescaled trace":
            row |= dict(
                zip(("more", "more_low", "more_high"), (ours - plain).numbers, strict=False)
            )
        parts.append(pd.DataFrame([row]))
    return pd.concat(parts, ignore_index=True)
