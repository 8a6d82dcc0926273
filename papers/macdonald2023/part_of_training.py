"""Curves of a part of training: as long as labels were not smoothed, or the first iterations."""

import pandas as pd

from flatlab.lab.figures.curves import spread
from flatlab.lab.figures.render import Settings
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.macdonald2023._parts import first, until_unsmoothed_stop


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """The columns of `spread`: those of the settings, samples and iterations that are declared."""
    ((_, networks),) = tables.items()
    if figure["until_unsmoothed_stop"]:
        networks = networks.with_table(until_unsmoothed_stop)
    networks = networks.with_table(first, figure["share"]).where(**figure["where"])
    options = {key: figure[key] for key in ("quantities", "samples", "marks", "named")}
    return spread(networks, **options)
