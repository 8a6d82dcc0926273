"""Regressions of the line: the networks of a grid by the frequency of their initialization."""

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.tables.selection import end_of_training

GAUSSIAN, RELU = "regression-gaussian-grid", "regression-relu-grid"
ACTIVATIONS = {GAUSSIAN: "Gaussian", RELU: "ReLU"}
FREQUENCIES = {
    GAUSSIAN: {"framework": "high", "low-frequency": "low"},
    RELU: {"high-frequency": "high", "framework": "low"},
}
"""How rough the function of a freshly initialized network is: macdonald2023, App. C.3."""

JACOBIAN, SHARPNESS, FIRST_LAYER = "jacobian_norm", "hessian_lambda_max", "first_layer_norm"
QUANTITIES = (JACOBIAN, SHARPNESS, FIRST_LAYER)
"""The rows of tables 1 and 2 of macdonald2023."""


def by_frequency(grid: str, table: xr.Dataset) -> pd.DataFrame:
    """The networks of a grid at the end of training: a row each, with run, frequency, `QUANTITIES`.

    Networks that diverged are left out. The norm of the first layer is the spectral one, which for
    one input is also the Frobenius norm. A quantity that the table does not have is NaN.
    """
    chosen = end_of_training(table)
    if "weight_norm" in chosen:
        chosen[FIRST_LAYER] = chosen["weight_norm"].isel(layer=0)
    frequencies = [FREQUENCIES[grid][str(name)] for name in chosen["initialization"].values]
    columns = {name: chosen[name].values if name in chosen else np.nan for name in QUANTITIES}
    return pd.DataFrame({"run": chosen["run"].values, "frequency": frequencies, **columns})
