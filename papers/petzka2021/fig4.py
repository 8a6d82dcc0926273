"""petzka2021, Figure 4: the approximated generalization bound beside the generalization gap."""

import pandas as pd

from flatlab.lab.figures.render import Settings
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.petzka2021.fig3 import summary

COLUMNS = ["variant", "quantity", "separation", "mean", "deviation", "samples"]


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """A point per row: mean and standard deviation over the samples, and their number."""
    table = tables.table("representativeness").mean("fold")
    rows = [
        [variant, name, point["separation"].item(), *summary(point.values)]
        for variant in table["variant"].values
        for name in figure["lines"]
        for point in table[name].sel(variant=variant).transpose("separation", "repeat")
    ]
    return pd.DataFrame(rows, columns=COLUMNS)
