"""`Lines` with `along`: quantities at the end of training along hyper-parameters, by another."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.lab.figures.quantities import require
from flatlab.lab.figures.render import Settings, Tables
from flatlab.lab.tables import selection
from flatlab.stats.estimate import over_seeds
from flatlab.stats.trends import mean

COLUMNS = ["row", "along", "line", "quantity", "x", "seed", "y", "low", "high", "networks"]


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """Rows `run`: x and y of a network.  Rows `mean`: their mean, with its 95 % interval.

    line: the value of the hyper-parameter of the lines. Networks that diverged are left out, and
    counted nowhere but in the caption.
    """
    (table,) = tables.values()
    along, line, where = list(figure["along"]), figure["line"], figure["where"]
    require(table, figure["quantities"])
    names = selection.hyperparameters(table)
    require(table, [*along, line, *where], "hyper-parameter", names)
    chosen = selection.of_settings(selection.end_of_training(table), where)
    rows = []
    for name in along:
        others = [chosen[other].values == 0 for other in along if other != name]
        runs = chosen.sel(run=np.all(others, axis=0)) if others else chosen
        for quantity in figure["quantities"]:
            rows += _rows(runs, {"along": name, "quantity": quantity}, line)
    return pd.DataFrame(rows, columns=COLUMNS)


def _rows(runs: xr.Dataset, head: dict[str, str], line: str) -> list[dict[str, Any]]:
    """Those of one panel."""
    names = {"x": head["along"], "line": line, "seed": "seed", "y": head["quantity"]}
    values = pd.DataFrame({column: runs[name].values for column, name in names.items()})
    values = values[np.isfinite(values["y"].to_numpy(dtype=float))]
    rows = [{"row": "run", **head, **each} for each in values.to_dict("records")]
    for (at, x), group in values.groupby(["line", "x"]):
        estimate = over_seeds(head["quantity"], mean, group["y"].to_numpy(dtype=float))
        low, high = estimate.interval() if estimate.n > 1 else (np.nan, np.nan)
        numbers = {"y": estimate.value, "low": low, "high": high, "networks": estimate.n}
        rows.append({"row": "mean", **head, "line": at, "x": x, **numbers})
    return rows
