"""beyond, Figure 15: how far bounds of compression lie above what they bound."""

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.lab.figures.labels import headings
from flatlab.lab.figures.render import Settings
from flatlab.lab.tables.columns import Column
from flatlab.lab.tables.networks import ResultTables
from flatlab.lab.tables.selection import through_training

MEASURES = {
    "mls": ("sensitivity", "log mls", "log bound_d"),
    "nmls": ("sensitivity", "log nmls", "log nmls_bound"),
    "lvr": ("volume", "log_mean_volume", "log_volume_bound"),
    "nvr": ("volume", "network_log_volume", "network_log_volume_bound"),
}
"""Each measure: its panel, itself and its bound, both as logarithms."""


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """Median and quartiles over networks of one measure at one checkpoint, per row."""
    parts, titles = [], headings(tables.tables)
    for experiment, table in tables.tables.items():
        runs = through_training(table).sel(samples="train")
        for measure, (panel, value, bound) in MEASURES.items():
            ratios = Column.of(bound).values(runs) - Column.of(value).values(runs)
            ratio = xr.DataArray(ratios, {"run": runs["run"], "checkpoint": runs["checkpoint"]})
            ratio = ratio.where(np.isfinite(ratio) & (ratio["checkpoint"] > 0))
            ratio = ratio.dropna("checkpoint", how="all")
            low, median, high = ratio.quantile([0.25, 0.5, 0.75], "run").values
            rows: dict[str, object] = {"experiment": titles[experiment], "of": panel}
            rows |= {"measure": measure, "iteration": ratio["checkpoint"].values.astype(float)}
            rows |= {"median": median, "low": low, "high": high, "runs": ratio.count("run").values}
            parts.append(pd.DataFrame(rows))
    return pd.concat(parts, ignore_index=True)
