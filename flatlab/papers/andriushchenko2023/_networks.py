"""The diagonal linear networks that fit their data: andriushchenko2023, Figure 7."""

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.tables.selection import end_of_training

GRID = "dln-grid"
NETWORKS = 200
"""How many are shown: the first, by seed, that reach the training loss."""


def fitted(table: xr.Dataset) -> pd.DataFrame:
    """The first `NETWORKS` networks that stopped at the training loss, one per row.

    Columns: run, seed, lr, test_loss; norm_1 of u * v; trace_<scales> and lambda_max_<scales> of
    the rescaled Hessian; initial_trace of the Hessian before training. Values that are not finite
    stay.
    """
    ended = table.sel(run=(table["ended"] == "stopped").values).sortby("seed")
    chosen = end_of_training(ended).isel(run=slice(NETWORKS))
    columns = {name: chosen[name].values for name in ("run", "seed", "lr", "test_loss")}
    columns["norm_1"] = chosen["coefficients_norm_1"].values
    for name in ("trace", "lambda_max"):
        for scales in ("none", "balanced", "printed"):
            columns[f"{name}_{scales}"] = chosen[f"rescaled_{name}"].sel(scales=scales).values
    start = ended.sel(run=chosen["run"].values, checkpoint=0, samples="train", scales="none")
    return pd.DataFrame({**columns, "initial_trace": start["rescaled_trace"].values})


def not_fitted(table: xr.Dataset) -> int:
    """How many networks of the grid did not reach the training loss: diverged or too slow."""
    return int((table["ended"] != "stopped").sum())


def relative_error(networks: pd.DataFrame, scales: str) -> np.ndarray:
    """| trace / 2 - norm_1 | / norm_1 of each network."""
    half, norm = networks[f"trace_{scales}"].to_numpy() / 2, networks["norm_1"].to_numpy()
    return np.abs(half - norm) / norm


def with_thirds(networks: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """All networks, and thirds of them by learning rate and by initialization, by their names."""
    groups = {"": networks}
    for column in ("lr", "initial_trace"):
        thirds = pd.qcut(networks[column].rank(method="first"), 3, labels=False)
        groups |= {f", {n + 1}. third by {column}": networks[thirds == n] for n in range(3)}
    return groups
