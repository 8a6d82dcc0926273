"""beyond, Figure 8: bounds of the penultimate features and what they bound, by their number."""

import numpy as np
import pandas as pd

from flatlab.lab.figures.render import Settings
from flatlab.lab.tables.networks import ResultTables
from flatlab.lab.tables.selection import INTERPOLATES
from flatlab.papers.beyond import _bottleneck as bottleneck
from flatlab.papers.beyond._bottleneck import GRID, LOSSES, BottleneckNetworks, quartiles

COLUMNS = ["loss", "panel", "line", "units", "median", "low", "high", "networks"]
PENULTIMATE = {
    "features": "root feature_sensitivity",
    "bound": "penultimate_bound",
    "by-layer": "penultimate_bound_by_layer",
    "by-sharpness": "penultimate_bound_by_sharpness",
}
HEAD = {"seen": "head_frobenius", "head-bound": "head_bound"}


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """A row per line of a panel, loss and number of units: median and quartiles over networks.

    Of the line `fits` it is the share of the networks that interpolate, in `median`.
    """
    networks = bottleneck.networks(tables.table(GRID))
    rows = [
        [LOSSES[loss], *line]
        for loss in networks.levels("loss")
        for units, chosen in networks.where(loss=loss).by("units").items()
        for line in _lines(units, chosen)
    ]
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table[np.isfinite(table["median"])].reset_index(drop=True)


def _lines(units: int, networks: BottleneckNetworks) -> list[list[object]]:
    """The lines of networks of one width and loss: panel, line, units, numbers."""
    values = {("penultimate", line): networks.values(name) for line, name in PENULTIMATE.items()}
    values |= {("head", line): networks.values(name) for line, name in HEAD.items()}
    share = networks.series("head_share")
    values |= {("share", "start"): share[:, 0], ("share", "end"): share[:, -1]}
    rows = [[*place, units, *quartiles(numbers)] for place, numbers in values.items()]
    fits = float((networks.values("train_loss") < INTERPOLATES).mean())
    return [*rows, ["share", "fits", units, fits, fits, fits, networks.count]]
