"""`Intervals` with `pairs`: correlations of pairs of quantities, by experiment and kind."""

import pandas as pd

from flatlab.lab.figures.labels import headings
from flatlab.lab.figures.quantities import require, with_parts
from flatlab.lab.figures.render import Settings, Tables
from flatlab.lab.figures.style import KINDS
from flatlab.lab.tables.selection import columns_of, end_of_training
from flatlab.stats.correlation import Correlations


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """One correlation per row, with its kind, its interval and the number of its networks.

    kind: `pooled`, over all networks, `within` settings, or `adjusted` for the training loss.  A
    pair has no value where one of its quantities was not measured in an experiment.
    """
    rows = []
    names = list(dict.fromkeys(name for pair in figure["pairs"] for name in pair))
    titles = headings(tables)
    for experiment, table in tables.items():
        end = with_parts(end_of_training(table), figure["parts"])
        require(end, names)
        settings, loss = list(end["setting"].values), end["train_loss"].values
        result = Correlations(columns_of(end, names), settings, loss)
        for kind in KINDS:
            matrices = result.matrix(kind)
            for x, y in figure["pairs"]:
                place = names.index(x), names.index(y)
                values = [float(matrix[place]) for matrix in matrices]
                rows.append([titles[experiment], kind, x, y, *values, result.runs_used(x, y)])
    header = ["experiment", "kind", "x", "y", "rho", "low", "high", "runs"]
    return pd.DataFrame(rows, columns=header)
