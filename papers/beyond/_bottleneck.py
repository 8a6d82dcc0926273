"""The networks of `bottleneck-grid`: perceptrons by the units of their last hidden layer.

x^l is the input of layer l, so that the penultimate features are that of the last layer; a quantity
per layer without a label is theirs. Networks are those that interpolate.
"""

import re
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import xarray as xr

from flatlab.lab.tables.networks import Networks
from flatlab.lab.tables.selection import INTERPOLATES
from flatlab.papers.beyond._joint import ALL, SEEDS
from flatlab.stats.estimate import Array
from flatlab.stats.ranks import Pairs, pairs_of

GRID = "bottleneck-grid"
NARROW, WIDE = [4, 8, 10], [32, 128]
"""Units d of the last hidden layer: at most as many as outputs K; more than outputs."""
ESTIMANDS = {ALL: "of one width and loss", SEEDS: "within settings"}
"""Which pairs of networks are compared."""
LOSSES = {"cross-entropy": "cross-entropy", "half-mse": "half-MSE"}
"""What losses are called in figures."""

NUMBERS = ["value", "low", "high", "networks"]
"""What figures show of estimates, and of medians with their quartiles."""


class BottleneckNetworks(Networks):
    """Networks of the grid, with pairs and with changes since they first interpolated."""

    ESTIMANDS: ClassVar = ESTIMANDS

    def pairs(self, estimand: str) -> Pairs:
        """Pairs of networks of one setting; or `ALL`: of one architecture, loss and classes."""
        if estimand != ALL:
            return pairs_of(self.data["setting"].values)
        alike = zip(self.data["units"].values, self.data["loss"].values, strict=True)
        return pairs_of([f"{units} {loss}" for units, loss in alike])

    def since_interpolation(self, name: str) -> Array:
        """A column at the last checkpoint over that at the first one that interpolates: (networks).

        NaN for networks that interpolate at the last checkpoint alone.
        """
        values, below = self.series(name), self.series("train_loss") < INTERPOLATES
        first = below.argmax(axis=1)
        rows = np.arange(len(values))
        earlier = below.any(axis=1) & (first < values.shape[1] - 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(earlier, values[:, -1] / values[rows, first], np.nan)

    def medians(self, what: str, values: Array) -> Iterator[dict[str, object]]:
        """The median of a quantity (networks) for each width and loss, for the evidence."""
        names = zip(self.data["units"].values, self.data["loss"].values, strict=True)
        labels = np.array([f"{units} units, {loss}" for units, loss in names])
        for label in dict.fromkeys(labels):
            chosen = values[(labels == label) & np.isfinite(values)]
            if len(chosen):
                value = float(np.median(chosen))
                yield {"quantity": f"median {what}; {label}", "value": value, "n": len(chosen)}


def networks(table: xr.Dataset) -> BottleneckNetworks:
    """All networks of the table, interpolating or not, at the end of training."""
    return BottleneckNetworks.of(GRID, with_units(table))


def with_units(table: xr.Dataset) -> xr.Dataset:
    """The table with the units of the last hidden layer, which names of settings begin with."""
    found = [re.match(r"units(\d+)-", str(setting)) for setting in table["setting"].values]
    units = [int(match[1]) for match in found if match]
    named = ["units", *table.attrs["hyperparameters"]]
    return table.assign_coords(units=("run", units)).assign_attrs(hyperparameters=named)


def quartiles(values: Array) -> tuple[float, float, float, int]:
    """`NUMBERS` of the finite ones among some values; NaN if there are none."""
    known = values[np.isfinite(values)]
    low, median, high = np.quantile(known, [0.25, 0.5, 0.75]) if len(known) else [np.nan] * 3
    return median, low, high, len(known)
