"""Measures of networks at different minima against their generalization gap: Figures 5 to 8."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.tables.networks import Networks, ResultTables

GRID, GAP = "minima-grid", "generalization_gap"
RESCALED, AFTER = "last-layer", "_after"
"""The transformation of Figure 7, and the ending of what is measured after it."""

MEASURES = {
    "kappa": "normalized_kappa_trace[-1]",
    "trace": "hessian_trace_per_layer[-1]",
    "fisher_rao": "fisher_rao",
    "pac_bayes": "pac_bayes",
    "norm": "squared_norm_per_layer[-1]",
    "kappa_before_last": "normalized_kappa_trace[-2]",
    "network_trace": "hessian_trace",
    "network_norm": "squared_norm",
}
"""The column of the table that a measure is."""

NUMBERS = [
    *("row", "measure", "rho", "low", "high", "within", "slope", "intercept", "networks"),
    *("sgd", "sgd_low", "sgd_high"),
]


def frame(figure: Mapping[str, Any], tables: ResultTables) -> pd.DataFrame:
    """Rows `run`: a network by a measure, x and gap.  Rows `rho`: of a measure, with its interval,
    that within settings, the line of least squares, and the number of networks.
    """
    from flatlab.stats.correlation import Correlations

    networks = tables[GRID]
    about, gap = networks.data, networks.values(GAP)
    columns = {name: _values(networks, name) for name in figure["panels"]}
    settings, loss = list(about["setting"].values), about["train_loss"].values
    values, pairs = {**columns, GAP: gap}, [(name, GAP) for name in columns]
    is_sgd = about["optimizer"].values == "sgd"
    of_sgd = {name: np.where(is_sgd, each, np.nan) for name, each in values.items()}
    known, among_sgd = (Correlations(each, settings, loss) for each in (values, of_sgd))
    head = {name: about[name].values for name in ("run", "optimizer", "lr", "batch_size")}
    parts = []
    estimates = (known.rhos(*pairs), known.rhos(*pairs, kind="within"), among_sgd.rhos(*pairs))
    for (name, x), rho, within, sgd in zip(columns.items(), *estimates, strict=True):
        parts.append(pd.DataFrame({"row": "run", "measure": name, **head, "x": x, "gap": gap}))
        fitted = *rho.numbers[:3], within.value, *least_squares(x, gap)
        content = "rho", name, *fitted, rho.n, *sgd.numbers[:3]
        parts.append(pd.DataFrame([content], columns=NUMBERS))
    return pd.concat(parts, ignore_index=True)


def _values(networks: Networks, name: str) -> np.ndarray[Any, Any]:
    """A measure of each network, or after the last layers were rescaled."""
    at = networks.after(RESCALED) if name.endswith(AFTER) else networks
    return at.values(MEASURES[name.removesuffix(AFTER)])


def least_squares(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Slope and intercept of a line; NaN where there are fewer than three finite points."""
    kept = np.isfinite(x) & np.isfinite(y)
    if kept.sum() < 3 or np.ptp(x[kept]) == 0:
        return np.nan, np.nan
    slope, intercept = np.polyfit(x[kept], y[kept], 1)
    return float(slope), float(intercept)
