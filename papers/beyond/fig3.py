"""beyond, Figure 3: correlations between networks depend on when they are measured."""

import pandas as pd

from flatlab.lab.figures.axes import log_spaced
from flatlab.lab.figures.labels import headings
from flatlab.lab.figures.render import Settings, Tables
from flatlab.lab.figures.style import KINDS
from flatlab.lab.tables.columns import Column
from flatlab.lab.tables.selection import measured, through_training
from flatlab.stats.correlation import Correlations

COLUMNS = ["experiment", "kind", "x", "y", "iteration", "rho", "low", "high", "runs"]


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """A correlation of one kind, at one checkpoint, with its interval, per row."""
    rows = []
    pairs = [panel.split(" ") for panel in figure["panels"]]
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    titles = headings(tables)
    for experiment, table in tables.items():
        runs = through_training(table).sel(samples="train")
        # Only checkpoints that all settings have: the same runs are compared at each of them.
        steps = runs["checkpoint"].values[measured(runs).all("run").values]
        first = 1 if log_spaced(steps) else 0  # where a logarithmic axis can begin
        for step in steps[steps >= first]:
            at = runs.sel(checkpoint=step)
            settings, loss = list(at["setting"].values), at["train_loss"].values
            columns = {name: Column.of(name).values(at) for name in names}
            at_time = Correlations(columns, settings, loss)
            for kind in KINDS:
                matrices = at_time.matrix(kind)
                for x, y in pairs:
                    place = at_time.names.index(x), at_time.names.index(y)
                    numbers = [*(matrix[place] for matrix in matrices), at_time.runs_used(x, y)]
                    rows.append([titles[experiment], kind, x, y, float(step), *numbers])
    return pd.DataFrame(rows, columns=COLUMNS)
