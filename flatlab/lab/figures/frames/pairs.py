"""`Points` with `pairs`: quantities at the end of training, a network per row."""

import pandas as pd

from flatlab.lab.figures import labels
from flatlab.lab.figures.quantities import require
from flatlab.lab.figures.render import Settings, Tables
from flatlab.lab.figures.style import OTHER_KINDS
from flatlab.lab.tables.selection import columns_of, end_of_training


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """Rows `run`: a network's two quantities.  Rows `rho`: their correlation and its interval, and
    those within settings and adjusted for the training loss.
    """
    parts, titles = [], labels.headings(tables)
    for experiment, table in tables.items():
        require(table, [name for pair in figure["pairs"] for name in pair])
        chosen = end_of_training(table)
        names, settings = chosen["run"].values, labels.in_words(chosen)
        for x, y in figure["pairs"]:
            head = {"experiment": titles[experiment], "x": x, "y": y}
            x_value, y_value = columns_of(chosen, [x, y]).values()
            runs = {"name": names, "setting": settings, "x_value": x_value, "y_value": y_value}
            parts.append(pd.DataFrame({"row": "run", **head, **runs}))
            pair = correlations[experiment].sel(x=x, y=y)
            rho = {name: [float(pair[name].sel(kind="pooled"))] for name in ("rho", "low", "high")}
            rho |= {kind: [float(pair["rho"].sel(kind=kind))] for kind in OTHER_KINDS}
            parts.append(pd.DataFrame({"row": "rho", **head, **rho}))
    return pd.concat(parts, ignore_index=True)
