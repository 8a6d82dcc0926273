"""petzka2021, Figure 3: does relative flatness predict the generalization gap, by separation."""

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.lab.figures.render import Settings
from flatlab.lab.tables.networks import ResultTables
from flatlab.stats.trends import pearson

PLAIN = ("squared", "none", "squared")
VARIANTS = ("exact", "inverted", "reversed", "code")
READINGS = (
    PLAIN,
    *(("squared", normalization, "squared") for normalization in ("deviation", "variance")),
    *(("cross-entropy", "none", "cross-entropy"), ("squared", "none", "zero-one")),
)
"""Loss and normalization of relative flatness, loss of the gap; joined, they are keys of lines."""

OF_RISK = ("exact", "inverted")
COLUMNS = ["panel", "line", "separation", "drawn_at", "mean", "deviation", "batches"]


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """A point per row: mean, standard deviation and number of the batches' correlations."""
    table = tables.table("locally-constant-labels")
    lines = [
        *(("variants", variant, PLAIN, variant, "gap") for variant in VARIANTS),
        *(("readings", "exact", reading, " ".join(reading), "gap") for reading in READINGS),
        *(("risk", variant, PLAIN, variant, "risk") for variant in OF_RISK),
    ]
    rows = []
    for panel, variant, reading, name, y in lines:
        chosen, label = table.sel(variant=variant), figure["lines"][name][0]
        for at, rhos in zip(chosen["drawn_at"], of_batches(chosen, y, *reading), strict=True):
            rows.append([panel, label, at["separation"].item(), at.item(), *summary(rhos)])
    return pd.DataFrame(rows, columns=COLUMNS)


def of_batches(
    table: xr.Dataset, y: str, loss: str, normalization: str, loss_of_y: str
) -> np.ndarray:
    """Pearson's correlation of relative flatness and `y` in each batch: (separations, batches).

    loss, normalization: of relative flatness.  y: gap or risk.  A batch that a variant does not
    have, or with a value that is not finite, is NaN.
    """
    kappa = table["relative_flatness"].sel(loss=loss, normalization=normalization)
    dims = ("separation", "batch", "dataset")
    pair = [part.transpose(*dims).values for part in (kappa, table[y].sel(loss=loss_of_y))]
    *shape, datasets = pair[0].shape
    with np.errstate(invalid="ignore"):
        return pearson(*(part.reshape(-1, datasets) for part in pair)).reshape(shape)


def summary(values: np.ndarray) -> list[float]:
    """Mean, standard deviation and number of the finite values; NaN if there are too few."""
    finite = values[np.isfinite(values)]
    mean = finite.mean() if len(finite) else np.nan
    return [mean, finite.std(ddof=1) if len(finite) > 1 else np.nan, len(finite)]
