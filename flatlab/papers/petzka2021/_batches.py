"""Correlations in the tables of simulations, over the data sets of a batch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr

from flatlab.stats.trends import pearson


def of_batches(
    table: xr.Dataset, y: str, variant: str, flatness: Mapping[str, str], loss: str = "squared"
) -> xr.DataArray:
    """Pearson's correlation of relative flatness and `y` in each batch: (separation, batch).

    flatness: the loss and the normalization of relative flatness.  loss: that of `y`, gap or risk.
    A batch with a value that is not finite, or that a variant does not have, is NaN.
    """
    chosen = table.sel(variant=variant)
    a, b = chosen["relative_flatness"].sel(flatness), chosen[y].sel(loss=loss)
    dims = ("separation", "batch", "dataset")
    pair = [part.transpose(*dims).values for part in (a, b)]
    shape = pair[0].shape[:2]
    with np.errstate(invalid="ignore"):
        rho = pearson(*(part.reshape(-1, part.shape[-1]) for part in pair)).reshape(shape)
    return xr.DataArray(rho, dims=dims[:2], coords={"separation": table["separation"]})
