"""Tables of a part of training."""

import xarray as xr


def until_unsmoothed_stop(table: xr.Dataset) -> xr.Dataset:
    """The table with the values of each run up to the step at which its reference took its last.

    The reference of a run has unsmoothed labels, and the same seed and other hyper-parameters. What
    is behind that step, or has no reference, is missing.
    """
    others = [name for name in table.attrs["hyperparameters"] if name != "label_smoothing"]
    runs = list(zip(*(table[name].values for name in (*others, "seed")), strict=True))
    known = zip(runs, table["label_smoothing"].values, table["steps"].values, strict=True)
    steps = {run: float(step) for run, smoothing, step in known if smoothing == 0}
    last = xr.DataArray([steps.get(run, -1.0) for run in runs], dims="run")
    return table.where(table["checkpoint"] <= last)


def first(table: xr.Dataset, share: float) -> xr.Dataset:
    """The checkpoints in the first part of the iterations, of which it is this share."""
    iterations = table["checkpoint"].values
    return table.sel(checkpoint=iterations <= share * iterations.max() + 1e-6)  # for rounding
