"""beyond, Figure 3: correlations between networks depend on when they are measured."""

import pandas as pd

from flatlab.lab.figures.labels import headings
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import KINDS, log_spaced
from flatlab.lab.tables.columns import Column
from flatlab.lab.tables.networks import ResultTables
from flatlab.lab.tables.selection import has_values, through_training
from flatlab.stats.correlation import Correlations

COLUMNS = ["experiment", "kind", "x", "y", "iteration", "rho", "low", "high", "runs"]


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """A correlation of one kind, at one checkpoint, with its interval, per row."""
    rows = []
    pairs = [tuple(panel.split(" ")) for panel in figure["panels"]]
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    titles = headings(tables.tables)
    for experiment, table in tables.tables.items():
        runs = through_training(table).sel(samples="train")
        # Only checkpoints that all settings have: the same runs are compared at each of them.
        steps = runs["checkpoint"].values[has_values(runs).all("run").values]
        first = 1 if log_spaced(steps) else 0  # where a logarithmic axis can begin
        for step in steps[steps >= first]:
            at = runs.sel(checkpoint=step)
            settings, loss = list(at["setting"].values), at["train_loss"].values
            columns = {name: Column.of(name).values(at) for name in names}
            at_time = Correlations(columns, settings, loss)
            for kind in KINDS:
                for (x, y), rho in zip(pairs, at_time.of_pairs(kind, pairs), strict=True):
                    numbers = [float(step), *rho, at_time.runs_used(x, y)]
                    rows.append([titles[experiment], kind, x, y, *numbers])
    return pd.DataFrame(rows, columns=COLUMNS)
