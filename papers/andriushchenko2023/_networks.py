"""The diagonal linear networks that fit their data: andriushchenko2023, Figure 7."""

import pandas as pd
import xarray as xr

from flatlab.lab.tables.networks import Networks

GRID = "dln-grid"
NETWORKS = 200
"""How many are shown: the first, by seed, that reach the training loss."""

COLUMNS = {"lr": "lr", "test_loss": "test_loss", "norm_1": "coefficients_norm_1"}
for scales in ("none", "balanced", "printed"):
    for name in ("trace", "lambda_max"):
        COLUMNS[f"{name}_{scales}"] = f"rescaled_{name}[{scales}]"
"""What they are called here; norm_1 is that of u * v."""


def that_fit(table: xr.Dataset) -> Networks:
    """The first `NETWORKS` networks that stopped at the training loss, by seed."""
    stopped = table.sel(run=(table["ended"] == "stopped").values).sortby("seed")
    words = {column: name for name, column in COLUMNS.items()}
    return Networks.of(GRID, stopped.isel(run=slice(NETWORKS))).labelled(**words)


def fitted(table: xr.Dataset) -> pd.DataFrame:
    """These networks, one per row: run, seed, `COLUMNS`, and `initial_trace`.

    Values that are not finite stay.
    """
    networks = that_fit(table)
    columns = {name: networks.column(column) for name, column in COLUMNS.items()}
    about = {name: networks.data[name].values for name in ("run", "seed")}
    initial_trace = networks.at("start").column(COLUMNS["trace_none"])
    return pd.DataFrame({**about, **columns, "initial_trace": initial_trace})


def not_fitted(table: xr.Dataset) -> int:
    """How many networks of the grid did not reach the training loss: diverged or too slow."""
    return int((table["ended"] != "stopped").sum())
