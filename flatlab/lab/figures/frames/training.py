"""`Lines` with `quantities`: these quantities through training, for each seed and over them.

A row `curve` is one checkpoint of one line; a row `window` says where the mean training loss of a
setting falls below 1e-2 and interpolation begins.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.lab.figures.axes import log_spaced
from flatlab.lab.figures.labels import in_words
from flatlab.lab.figures.quantities import require
from flatlab.lab.figures.render import Settings, Tables
from flatlab.lab.tables import selection

NUMBERS = ["median", "mean", "sd", "runs"]
COLUMNS = ["row", "setting", "samples", "layer", "quantity", "iteration", *NUMBERS]
SEED = "seed "
"""The columns with the values of one seed begin with it."""


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """The columns of `spread`: those of the settings, samples and iterations that are declared."""
    (table,) = tables.values()
    if figure["until"]:
        table = selection.until_stop(table, figure["until"])
    table = selection.first(table, figure["share"])
    options = {key: figure[key] for key in ("quantities", "where", "samples", "marks", "named")}
    return spread(table, **options)


def spread(
    table: xr.Dataset,
    quantities: Sequence[str],
    where: Mapping[str, Any] | None = None,
    samples: Sequence[str] = ("train",),
    marks: bool = True,
    named: Sequence[str] = (),
) -> pd.DataFrame:
    """Median, mean, standard deviation and number of runs of quantities at every checkpoint.

    where: restricts the settings, {"lr": 0.1}.  samples: the sample sets.  marks: whether to add
    the rows `window`, which networks trained with squared errors have.  named: as for `in_words`.
    Columns: `COLUMNS`, then the values of each seed, `seed 0` and so on;
    `samples` of a loss or an accuracy is the set on which it is computed, `layer` is empty for a
    quantity of the whole network. Log-spaced checkpoints begin at the first positive one, since a
    logarithmic axis has no zero.
    """
    require(table, quantities)
    require(table, samples, "samples")
    require(table, where or {}, "hyper-parameter", selection.hyperparameters(table))
    chosen = selection.through_training(table, where)
    if log_spaced(chosen["checkpoint"].values):
        chosen = chosen.sel(checkpoint=chosen["checkpoint"].values > 0)
    settings = in_words(chosen, named)
    values = zip(
        *(chosen[key].values for key in selection.hyperparameters(chosen)), settings, strict=True
    )
    parts = []
    for setting in dict.fromkeys(setting for *_, setting in sorted(values)):
        runs = chosen.isel(run=[s == setting for s in settings])
        # a checkpoint that only another setting has is not a gap in this one
        runs = runs.isel(checkpoint=selection.measured(runs).any("run").values)
        parts += [_curves(runs[name], samples).assign(setting=setting) for name in quantities]
        begins = selection.interpolation_begins(runs["train_loss"])
        if marks and math.isfinite(begins):
            window = {"row": ["window"], "setting": setting, "iteration": begins}
            parts.append(pd.DataFrame(window))
    filled = [part for part in parts if len(part)] or [pd.DataFrame()]
    rows = pd.concat(filled, ignore_index=True)
    seeds = [name for name in rows if name not in COLUMNS and SEED in str(name)]
    return rows.reindex(columns=[*COLUMNS, *seeds])


def _curves(values: xr.DataArray, samples: Sequence[str]) -> pd.DataFrame:
    """A curve for each sample set and layer, where the quantity has them."""
    name, seeds = str(values.name), values["seed"].values
    values = values.reset_coords(drop=True)
    if "samples" in values.dims:
        values = values.sel(samples=list(samples))
    else:
        values = values.expand_dims(samples=["train" if name.startswith("train") else "test"])
    if "layer" not in values.dims:
        values = values.expand_dims(layer=[""])
    rows = _over_runs(values, seeds).to_dataframe(dim_order=["samples", "layer", "checkpoint"])
    rows = rows.reset_index().assign(row="curve", quantity=name)
    return rows.assign(iteration=rows["checkpoint"].astype(float))


def _over_runs(values: xr.DataArray, seeds: np.ndarray) -> xr.Dataset:
    """Each run, and median, mean, standard deviation and number of those that have a value.

    One run has no deviation; NaN is no value.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of no runs is NaN
        over = (values.median("run"), values.mean("run"), values.std("run", ddof=1))
    numbers = dict(zip(NUMBERS, (*over, values.count("run").astype(float)), strict=True))
    runs = {f"{SEED}{seed}": values.isel(run=place, drop=True) for place, seed in enumerate(seeds)}
    return xr.Dataset({**numbers, **runs})
