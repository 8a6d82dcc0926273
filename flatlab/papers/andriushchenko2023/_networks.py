"""The diagonal linear networks that fit their data: andriushchenko2023, Figure 7."""

import pandas as pd
import xarray as xr

from flatlab.stats.estimate import Array
from flatlab.tables.networks import Networks

GRID = "dln-grid"
NETWORKS = 200
"""How many are shown: the first, by seed, that reach the training loss."""

SCALES = ("none", "balanced", "printed")
"""How the Hessian is rescaled."""

COLUMNS = {
    **{"lr": "lr", "test_loss": "test_loss", "norm_1": "coefficients_norm_1"},
    **{
        f"{n}_{scales}": f"rescaled_{n}[{scales}]"
        for n in ("trace", "lambda_max")
        for scales in SCALES
    },
}
"""What they are called here; norm_1 is that of u * v."""


def that_fit(table: xr.Dataset) -> Networks:
    """The first `NETWORKS` networks that stopped at the training loss, by seed."""
    stopped = table.sel(run=(table["ended"] == "stopped").values).sortby("seed")
    words = {column: name for name, column in COLUMNS.items()}
    return Networks.of(GRID, stopped.isel(run=slice(NETWORKS))).called(**words)


def initial_trace(networks: Networks) -> Array:
    """The trace of the Hessian before training: (networks)."""
    return networks.at("start").column(COLUMNS["trace_none"])


def fitted(table: xr.Dataset) -> pd.DataFrame:
    """These networks, one per row: run, seed, `COLUMNS`, and `initial_trace`.

    Values that are not finite stay.
    """
    networks = that_fit(table)
    columns = {name: networks.column(column) for name, column in COLUMNS.items()}
    about = {name: networks.data[name].values for name in ("run", "seed")}
    return pd.DataFrame({**about, **columns, "initial_trace": initial_trace(networks)})


def not_fitted(table: xr.Dataset) -> int:
    """How many networks of the grid did not reach the training loss: diverged or too slow."""
    return int((table["ended"] != "stopped").sum())
