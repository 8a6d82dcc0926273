"""The table of a grid: all quantities of all its runs, one xarray dataset.

Dimensions: run, checkpoint (iteration), samples (sample set), layer. Coordinates of a run: setting,
seed, the hyper-parameters of its setting, `steps` (the iterations it took), `ended` (finished,
stopped or diverged) and `diverged` (whether it is left out).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from flatlab.tables.selection import counts


def collect(parts: Iterable[xr.Dataset], settings: Mapping[str, Any]) -> xr.Dataset:
    """Join metric files (one per pack and family) into a table.

    settings: `runs` (the order of the rows), `diverged_below` (training accuracy in %, or
    None), and `about`, the attributes of the table, to which `extent` is added.
    """
    by_pack: dict[str, list[xr.Dataset]] = {}
    for part in parts:
        by_pack.setdefault(str(part.run.values[0]), []).append(part)
    packs = [xr.merge(families, join="exact", compat="equals") for families in by_pack.values()]
    packs = [pack.assign_coords(diverged=("run", _diverged(pack, settings))) for pack in packs]
    # Runs that were kept at fewer checkpoints have missing values at the others.
    checkpoints = sorted({int(step) for pack in packs for step in pack["checkpoint"].values})
    packs = [pack.reindex(checkpoint=checkpoints) for pack in packs]
    packs = _with_alike_numbers(packs)
    table = xr.concat(packs, "run", join="exact", coords="minimal", compat="equals")
    table = table.sel(run=list(settings["runs"]))
    about = settings["about"]
    table.attrs = {**about, "extent": extent(about, **counts(table))}
    return table


def _with_alike_numbers(packs: list[xr.Dataset]) -> list[xr.Dataset]:
    """The packs with hyper-parameters as floats where some are: a rate of 0 here, of 0.5 there.

    xarray writes a joined coordinate in the type of the first file it was read from, and cuts what
    does not fit.
    """
    mixed = {
        name
        for name in packs[0].coords
        if {pack[name].dtype.kind for pack in packs if name in pack.coords} == {"i", "f"}
    }
    return [
        pack.assign_coords({n: (pack[n].dims, pack[n].values.astype(float)) for n in mixed})
        for pack in packs
    ]


def extent(about: Mapping[str, Any], runs: int, diverged: int) -> str:
    """The number and kind of networks in a grid's table, and the number left out, in words."""
    words = (
        f"{runs} {about['network']} networks on {about['data']}, {about['length']} each; "
        f"{diverged} diverged and left out"
    )
    count = about["left_out"]
    return f"{words}; {count} more of the grid are not trained" if count else words


def _diverged(pack: xr.Dataset, settings: Mapping[str, Any]) -> np.ndarray:
    """Whether each run of a pack ended without a finite loss or without fitting the data."""
    end = pack.isel(checkpoint=-1)
    diverged = ~np.isfinite(end["train_loss"].values)
    if settings["diverged_below"] is not None:
        diverged |= ~(end["train_accuracy"].values >= settings["diverged_below"])
    return diverged
