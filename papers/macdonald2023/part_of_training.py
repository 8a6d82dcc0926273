"""Curves of a part of training: as long as labels were not smoothed, or the first iterations."""

import pandas as pd
import xarray as xr

from flatlab.lab.figures.curves import spread
from flatlab.lab.figures.render import Settings
from flatlab.lab.tables.networks import ResultTables
from flatlab.lab.tables.selection import hyperparameters


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """The columns of `spread`: those of the settings, samples and iterations that are declared."""
    ((_, networks),) = tables.items()
    if figure["until_unsmoothed_stop"]:
        networks = networks.with_table(until_unsmoothed_stop)
    networks = networks.with_table(first, figure["share"]).where(**figure["where"])
    options = {key: figure[key] for key in ("quantities", "samples", "marks", "named")}
    return spread(networks, **options)


def until_unsmoothed_stop(table: xr.Dataset) -> xr.Dataset:
    """The table with the values of each run up to the step at which its reference took its last.

    The reference of a run has unsmoothed labels, and the same seed and other hyper-parameters. What
    is behind that step, or has no reference, is missing.
    """
    others = [name for name in hyperparameters(table) if name != "label_smoothing"]
    runs = list(zip(*(table[name].values for name in (*others, "seed")), strict=True))
    known = zip(runs, table["label_smoothing"].values, table["steps"].values, strict=True)
    steps = {run: float(step) for run, smoothing, step in known if smoothing == 0}
    last = xr.DataArray([steps.get(run, -1.0) for run in runs], dims="run")
    return table.where(table["checkpoint"] <= last)


def first(table: xr.Dataset, share: float) -> xr.Dataset:
    """The checkpoints in the first part of the iterations, of which it is this share."""
    iterations = table["checkpoint"].values
    return table.sel(checkpoint=iterations <= share * iterations.max() + 1e-6)  # for rounding
