"""Rank correlations over networks: which networks, what is correlated, and Kendall's tau."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.lab.tables.selection import end_of_training, of_samples
from flatlab.stats.estimate import Estimate, undefined
from flatlab.stats.ranks import Ranks

FEWEST = 3
"""The fewest networks that have a rank correlation."""


def ended(table: xr.Dataset) -> xr.Dataset:
    """The networks of a grid at the end of training, or of a zoo, measured on training samples."""
    if "checkpoint" in table.dims:
        return end_of_training(table)
    return of_samples(table, "train")


def eligible(end: xr.Dataset, at_most: Mapping[str, float]) -> np.ndarray:
    """Whether each network has values of some quantities that are at most these: (run)."""
    kept = np.ones(end.sizes["run"], dtype=bool)
    for name, limit in at_most.items():
        kept &= end[name].values <= limit
    return kept


def at_radius(end: xr.Dataset, definition: str, index: int, name: str = "at_radius") -> np.ndarray:
    """The sharpness of each network by one definition, at its radius of this number: (run).

    name: or another of these quantities, `radius`, the radius itself.
    """
    place = {"definition": definition, "radius_index": str(index)}
    return end[f"sharpness_{name}"].sel(place).values


def groups_of(frame: pd.DataFrame, by: Sequence[str]) -> dict[tuple[object, ...], pd.DataFrame]:
    """The rows for each combination of values of some columns, the first one seen first."""
    return dict(list(frame.groupby(list(by), sort=False))) if by else {}


def rank_correlations(
    networks: pd.DataFrame, *pairs: tuple[str, str], where: str = ""
) -> list[Estimate]:
    """Kendall's tau-a of each pair of columns, over the networks for which all are finite."""
    values = networks[sorted({name for pair in pairs for name in pair})].astype(float)
    kept = values[np.isfinite(values).all(axis=1)]
    named = {f"tau({x}, {y}){where}": (x, y) for x, y in pairs}
    if len(kept) < FEWEST:
        return [undefined(name, f"{name}: {len(kept)} networks have both") for name in named]
    ranks = Ranks({str(name): column.to_numpy() for name, column in kept.items()}, None)
    return [ranks.tau(x, y).called(name) for name, (x, y) in named.items()]
