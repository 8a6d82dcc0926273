"""The table of a grid: all quantities of all its runs, one xarray dataset.

Dimensions: run, checkpoint (iteration), samples (sample set), layer. Coordinates of a run: setting,
seed, the hyper-parameters of its setting, `steps` (the iterations it took), `ended` (finished,
stopped or diverged), `diverged` (whether it is left out) and, for grids with `checkpoints.fitted`,
`fitted` (the iteration at which its training error first was small; NaN if never).
"""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from flatlab.core.store import as_strings
from flatlab.lab.tables.selection import counts, extent


def collect(parts: Iterable[xr.Dataset], settings: Mapping[str, Any]) -> xr.Dataset:
    """Join metric files (one per pack and family) into a table.

    settings: `runs` (the order of the rows), `diverged_below` (training accuracy in %, or
    None), `converged_only` (whether runs that were not stopped are flagged, too), and `about`, the
    attributes of the table, to which `extent` and, of such runs, `not_converged` are added.
    """
    by_pack: dict[str, list[xr.Dataset]] = {}
    for part in parts:
        # Without the chunks and number types of its file, which xarray would write a table in: tens
        # of thousands of chunks, and a rate of 0.5 cut to 0 where the first file has whole numbers.
        by_pack.setdefault(str(part.run.values[0]), []).append(part.drop_encoding())
    packs = [_merged(families) for families in by_pack.values()]
    packs = [pack.assign_coords(diverged=("run", _diverged(pack, settings))) for pack in packs]
    # Runs that were kept at fewer checkpoints have missing values at the others.
    checkpoints = sorted({int(step) for pack in packs for step in pack["checkpoint"].values})
    packs = [pack.reindex(checkpoint=checkpoints) for pack in packs]
    table = xr.concat(
        _with_all_layers(packs), "run", join="exact", coords="minimal", compat="equals"
    )
    table = table.sel(run=list(settings["runs"]))
    about = dict(settings["about"])
    if settings.get("converged_only"):
        about["not_converged"] = int((table["ended"].values == "finished").sum())
    table.attrs = {**about, "extent": extent(about, **counts(table))}
    return table


def _merged(families: list[xr.Dataset]) -> xr.Dataset:
    """The files of one pack; a quantity that several families have is that of the first.

    Families that are measured at the end alone have missing values at the other checkpoints.
    """
    known: set[str] = set()
    checkpoints = max(([*map(int, part["checkpoint"].values)] for part in families), key=len)
    parts = []
    for part in families:
        names = {str(name) for name in part.data_vars}
        steps = {*map(int, part["checkpoint"].values)}
        if checkpoints[-1] in steps < {*checkpoints}:
            part = part.reindex(checkpoint=checkpoints)
        parts.append(part.drop_vars(names & known))
        known |= names
    return xr.merge(parts, join="exact", compat="equals")


def _with_all_layers(packs: list[xr.Dataset]) -> list[xr.Dataset]:
    """The same; of several architectures, each lacks the values of the layers of the others."""
    layers = [tuple(pack["layer"].values) for pack in packs if "layer" in pack.dims]
    if len({*layers}) < 2:
        return packs
    known = as_strings(list(dict.fromkeys(itertools.chain(*layers))))
    return [pack.reindex(layer=known) if "layer" in pack.dims else pack for pack in packs]


def _diverged(pack: xr.Dataset, settings: Mapping[str, Any]) -> np.ndarray:
    """Whether each run of a pack ended without a finite loss or without what the grid demands."""
    end = pack.isel(checkpoint=-1)
    diverged = ~np.isfinite(end["train_loss"].values)
    if settings["diverged_below"] is not None:
        diverged |= ~(end["train_accuracy"].values >= settings["diverged_below"])
    if settings.get("converged_only"):
        diverged |= pack["ended"].values != "stopped"
    return diverged
