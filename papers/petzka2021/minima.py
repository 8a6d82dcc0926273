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


def frame(figure: Mapping[str, Any], tables: ResultTables) -> pd.DataFrame:
    """Rows `run`: a network by a measure, x and gap.  Rows `rho`: of a measure, with its interval,
    that within settings, the line of least squares, and the number of networks.
    """
    from flatlab.stats.correlation import Correlations

    networks = tables[GRID]
    columns = {name: _values(networks, name) for name in figure["panels"]}
    gap = networks.values(GAP)
    about = networks.data
    known = Correlations(
        {**columns, GAP: gap}, list(about["setting"].values), about["train_loss"].values
    )
    pairs = [(name, GAP) for name in columns]
    sgd = about["optimizer"].values == "sgd"
    of_sgd = Correlations(
        {name: np.where(sgd, values, np.nan) for name, values in {**columns, GAP: gap}.items()},
        list(about["setting"].values),
        about["train_loss"].values,
    )
    head = {name: about[name].values for name in ("run", "optimizer", "lr", "batch_size")}
    parts = []
    estimates = (known.rhos(*pairs), known.rhos(*pairs, kind="within"), of_sgd.rhos(*pairs))
    for (name, x), rho, within, sgd_rho in zip(columns.items(), *estimates, strict=True):
        parts.append(pd.DataFrame({"row": "run", "measure": name, **head, "x": x, "gap": gap}))
        low, high = rho.interval()
        numbers = {"rho": rho.value, "low": low, "high": high, "within": within.value}
        numbers |= dict(zip(("slope", "intercept"), least_squares(x, gap), strict=True))
        row = {"row": "rho", "measure": name, **numbers, "networks": rho.n, "sgd": sgd_rho.value}
        row |= dict(zip(("sgd_low", "sgd_high"), sgd_rho.interval(), strict=True))
        parts.append(pd.DataFrame([row]))
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
