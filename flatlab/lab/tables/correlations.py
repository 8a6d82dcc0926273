"""The correlation matrices of a table."""

import numpy as np
import xarray as xr

from flatlab.lab.tables.columns import Column, at_time
from flatlab.lab.tables.selection import counts, one_per_run
from flatlab.stats.correlation import KINDS, Correlations
from flatlab.stats.verdict import LEVEL


def correlate(table: xr.Dataset) -> xr.Dataset:
    """Correlations of all pairs of quantities at the end of training, with 95 % intervals.

    Dimensions: kind (pooled, within and between settings, adjusted for the training loss), x and y
    (quantities).
    """
    chosen = at_time(table, "end")
    names = one_per_run(chosen)
    settings, loss = list(chosen["setting"].values), chosen["train_loss"].values
    columns = {name: Column.of(name).values(chosen) for name in names}
    correlations = Correlations(columns, settings, loss)
    matrices = zip(*(correlations.matrix(kind) for kind in KINDS), strict=True)
    variables = {
        name: (("kind", "x", "y"), np.stack(parts))
        for name, parts in zip(("rho", "low", "high"), matrices, strict=True)
    }
    labels = {"kind": list(KINDS), "x": names, "y": names}
    coordinates = {dim: np.array(values, dtype=object) for dim, values in labels.items()}
    return xr.Dataset(
        variables, coords=coordinates, attrs={**table.attrs, **counts(table), "level": LEVEL}
    )
