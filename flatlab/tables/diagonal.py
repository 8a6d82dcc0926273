"""The diagonal linear networks that fit their data: andriushchenko2023, Figure 7."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.tables.selection import end_of_training

GRID = "dln-grid"
NETWORKS = 200
"""As many are shown: the first, by seed, that reach the training loss."""

SCALES = ("none", "balanced", "printed", "elementwise")
TEST_LOSS, NORM = "test_loss", "norm_1"
TRACE, LARGEST = "trace", "lambda_max"


def fitted(table: xr.Dataset) -> pd.DataFrame:
    """A network in a row: run, seed, lr, test_loss, norm_1 (of u * v), and of the rescaled Hessian
    trace_<scales> and lambda_max_<scales>.

    Of the networks that stopped at the training loss, the first `NETWORKS`. Values that are not
    finite stay.
    """
    ended = table.sel(run=(table["ended"] == "stopped").values)
    chosen = end_of_training(ended.sortby("seed")).isel(run=slice(NETWORKS))
    columns = {name: chosen[name].values for name in ("run", "seed", "lr", TEST_LOSS)}
    columns[NORM] = chosen["coefficients_norm_1"].values
    for name in (TRACE, LARGEST):
        for scales in SCALES:
            columns[f"{name}_{scales}"] = chosen[f"rescaled_{name}"].sel(scales=scales).values
    return pd.DataFrame(columns)


def not_fitted(table: xr.Dataset) -> int:
    """How many networks of the grid did not reach the training loss: diverged, or too slow."""
    return int((table["ended"] != "stopped").sum())


def relative_error(networks: pd.DataFrame, scales: str) -> np.ndarray:
    """| trace / 2 - norm_1 | / norm_1 of each network."""
    half, norm = networks[f"{TRACE}_{scales}"].to_numpy() / 2, networks[NORM].to_numpy()
    return np.abs(half - norm) / norm
