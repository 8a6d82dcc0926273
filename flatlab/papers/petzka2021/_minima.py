"""Measures of networks at different minima against their generalization gap: Figures 5 to 8."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.stats.correlation import Correlations
from flatlab.tables.selection import columns_of, end_of_training

GRID, GAP = "minima-grid", "generalization_gap"
CHANGE, AFTER = "last-layer", "_after"
"""The transformation of Figure 7, and the ending of what is measured after it."""
CHANGE_OF_OUTPUTS = "change_of_outputs"

LAST, BEFORE_LAST = -1, -2
QUANTITIES: dict[str, tuple[str, int | None]] = {
    "kappa": ("normalized_kappa_trace", LAST),
    "trace": ("hessian_trace_per_layer", LAST),
    "fisher_rao": ("fisher_rao", None),
    "pac_bayes": ("pac_bayes", None),
    "norm": ("squared_norm_per_layer", LAST),
    "kappa_before_last": ("normalized_kappa_trace", BEFORE_LAST),
    "network_trace": ("hessian_trace", None),
    "network_norm": ("squared_norm", None),
}
"""The quantity of the table that a measure is, and of which layer."""

SHOWN = ("kappa", "trace", "fisher_rao", "pac_bayes", "norm")
"""The measures that the paper compares."""


def named(table: xr.Dataset) -> xr.Dataset:
    """The table with every measure as a quantity of its own, also after the transformation."""
    own = {}
    for name, (quantity, layer) in QUANTITIES.items():
        array = table[quantity] if layer is None else table[quantity].isel(layer=layer, drop=True)
        for ending, kind in (("", "none"), (AFTER, CHANGE)):
            own[name + ending] = array.sel(transformation=kind, drop=True)
    own[CHANGE_OF_OUTPUTS] = table["output_change"].sel(transformation=CHANGE, drop=True)
    return table.assign(own)


def frame(table: xr.Dataset, measures: Iterable[str]) -> pd.DataFrame:
    """Rows `run`: a network by a measure, x and gap.  Rows `rho`: of a measure, with its interval,
    that within settings, the line of least squares, and the number of networks.
    """
    end = end_of_training(named(table))
    pairs = [(name, GAP) for name in measures]
    columns = columns_of(end, [*(name for name, _ in pairs), GAP])
    found = Correlations(columns, list(end["setting"].values), end["train_loss"].values)
    within = found.rhos(*pairs, kind="within")
    head = {name: end[name].values for name in ("run", "optimizer", "lr", "batch_size")}
    parts = []
    for (name, _), rho, other in zip(pairs, found.rhos(*pairs), within, strict=True):
        points = {"x": columns[name], "gap": columns[GAP]}
        parts.append(pd.DataFrame({"row": "run", "measure": name, **head, **points}))
        low, high = rho.interval()
        numbers = {"rho": rho.value, "low": low, "high": high, "within": other.value}
        numbers |= dict(zip(("slope", "intercept"), _line(*points.values()), strict=True))
        row = {"row": "rho", "measure": name, **numbers, "networks": rho.n}
        parts.append(pd.DataFrame([row]))
    return pd.concat(parts, ignore_index=True)


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Slope and intercept by least squares; NaN where there are fewer than three finite points."""
    kept = np.isfinite(x) & np.isfinite(y)
    if kept.sum() < 3 or np.ptp(x[kept]) == 0:
        return np.nan, np.nan
    slope, intercept = np.polyfit(x[kept], y[kept], 1)
    return float(slope), float(intercept)
