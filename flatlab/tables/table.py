"""The table of a grid: all quantities of all its runs, one xarray dataset.

Dimensions: run, checkpoint (iteration), samples (sample set), layer. Coordinates of a run: setting,
seed, the hyper-parameters of its setting, and `diverged`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr


def collect(parts: Iterable[xr.Dataset], settings: Mapping[str, Any]) -> xr.Dataset:
    """Join metric files (one per pack and family) into a table.

    settings: `runs` (the order of the rows), `diverged_below` (training accuracy in %), and
    `about`, the attributes of the table: what it shows, for captions.
    """
    by_pack: dict[str, list[xr.Dataset]] = {}
    for part in parts:
        by_pack.setdefault(str(part.run.values[0]), []).append(part)
    packs = [xr.merge(families, join="exact", compat="equals") for families in by_pack.values()]
    table = xr.concat(packs, "run", join="exact", coords="minimal", compat="equals")
    table = table.sel(run=list(settings["runs"]))
    accuracy = table["train_accuracy"].isel(checkpoint=-1).values
    loss = table["train_loss"].isel(checkpoint=-1).values
    diverged = ~np.isfinite(loss) | ~(accuracy >= settings["diverged_below"])
    table = table.assign_coords(diverged=("run", diverged))
    table.attrs = dict(settings["about"])
    return table
