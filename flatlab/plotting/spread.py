"""Quantities through training, mean and spread over the seeds: the table that curves are drawn of.

Rows `curve` are one checkpoint of one line each, rows `window` say where the mean training loss of
a setting falls below 1e-2, and interpolation begins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.plotting.iterations import log_spaced
from flatlab.plotting.quantities import refuse_unknown, require
from flatlab.plotting.style import in_words
from flatlab.tables.selection import (
    hyperparameters,
    interpolation_begins,
    measured,
    through_training,
)

NUMBERS = ("mean", "sd", "low", "high", "runs")
COLUMNS = ("setting", "samples", "layer", "quantity", "iteration", *NUMBERS)


def spread(
    table: xr.Dataset,
    quantities: Sequence[str],
    where: Mapping[str, Any] | None = None,
    samples: Sequence[str] = ("train",),
    marks: bool = True,
) -> pd.DataFrame:
    """Mean, standard deviation, band and number of runs of quantities at every checkpoint.

    where: the settings, as {"lr": 0.1}.  samples: the sample sets.  marks: whether to say where
    interpolation begins, of networks that are trained with squares.  Columns: row, `COLUMNS`;
    `samples` of a loss or an accuracy is the set that it is of, `layer` is empty where a quantity
    is one of the network. Where the checkpoints are log-spaced they begin at the first positive
    one, which is where a logarithmic axis can begin.
    """
    require(table, quantities)
    require(table, samples, "samples")
    refuse_unknown(table, where or {}, hyperparameters(table), "hyper-parameter")
    chosen = through_training(table, where)
    if log_spaced(chosen["checkpoint"].values):
        chosen = chosen.sel(checkpoint=chosen["checkpoint"].values > 0)
    settings = in_words(chosen)
    parts = [pd.DataFrame(columns=["row", *COLUMNS])]
    values = zip(*(chosen[key].values for key in hyperparameters(chosen)), strict=True)
    for setting, _ in sorted(dict(zip(settings, values, strict=True)).items(), key=lambda i: i[1]):
        runs = chosen.isel(run=[s == setting for s in settings])
        # What another setting's checkpoints leave empty is no gap of this one.
        runs = runs.isel(checkpoint=measured(runs).any("run").values)
        for quantity in quantities:
            for part in _curves(runs, quantity, samples):
                part.insert(0, "row", "curve")
                part.insert(1, "setting", setting)
                parts.append(part)
        begins = interpolation_begins(runs["train_loss"])
        if marks and math.isfinite(begins):
            window = {"row": ["window"], "setting": [setting], "iteration": [begins]}
            parts.append(pd.DataFrame(window))
    filled = [part for part in parts if len(part)] or parts
    return pd.concat(filled, ignore_index=True).reindex(columns=["row", *COLUMNS])


def _curves(runs: xr.Dataset, quantity: str, samples: Sequence[str]) -> Iterator[pd.DataFrame]:
    """A curve per sample set and layer, where the quantity has them."""
    array = runs[quantity]
    if "samples" in array.dims:
        cuts = [(s, array.sel(samples=s)) for s in samples]
    else:
        cuts = [("train" if quantity.startswith("train") else "test", array)]
    for name, cut in cuts:
        layers = list(cut["layer"].values) if "layer" in cut.dims else [None]
        for layer in layers:
            values = cut if layer is None else cut.sel(layer=layer)
            numbers = _over_runs(values.transpose("run", "checkpoint").values)
            yield pd.DataFrame(
                {
                    "samples": name,
                    "layer": layer or "",
                    "quantity": quantity,
                    "iteration": runs["checkpoint"].values.astype(float),
                    **dict(zip(NUMBERS, numbers, strict=True)),
                }
            )


def _over_runs(values: np.ndarray) -> tuple[np.ndarray, ...]:
    """`NUMBERS` of the runs that have a value: (checkpoints,) each.

    values: (runs, checkpoints).  NaN are runs without a value; one run has no deviation. The band
    is one standard deviation around the mean, and no wider than the runs: no band of accuracies
    goes beyond 100 %, and none of losses below 0.
    """
    there = ~np.isnan(values)
    count = there.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(there, values, 0).sum(axis=0) / count
        squares = np.where(there, values - mean, 0) ** 2
        sd = np.sqrt(squares.sum(axis=0) / np.where(count > 1, count - 1, np.nan))
    low = np.maximum(mean - sd, np.where(there, values, np.inf).min(axis=0))
    high = np.minimum(mean + sd, np.where(there, values, -np.inf).max(axis=0))
    return mean, sd, low, high, count.astype(float)
