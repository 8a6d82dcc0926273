"""The correlation matrices of a table."""

import numpy as np
import xarray as xr

from flatlab.stats import KINDS, LEVEL, Correlations
from flatlab.tables.selection import columns_of, counts, end_of_training, one_per_run


def correlate(table: xr.Dataset) -> xr.Dataset:
    """Correlations of all pairs of quantities at the end of training, with 95 % BCa intervals.

    Dimensions: kind (pooled, within, between settings), x and y (quantities). `percentile` marks
    where the percentile interval is used because BCa is not defined.
    """
    chosen = end_of_training(table)
    names = one_per_run(chosen)
    correlations = Correlations(columns_of(chosen, names), list(chosen["setting"].values))
    matrices = zip(*(correlations.matrix(kind) for kind in KINDS), strict=True)
    variables = {
        name: (("kind", "x", "y"), np.stack(parts))
        for name, parts in zip(("rho", "low", "high", "percentile"), matrices, strict=True)
    }
    labels = {"kind": KINDS, "x": names, "y": names}
    coordinates = {dim: np.array(values, dtype=object) for dim, values in labels.items()}
    about = {**table.attrs, **counts(table), "resamples": correlations.resamples, "level": LEVEL}
    return xr.Dataset(variables, coords=coordinates, attrs=about)
