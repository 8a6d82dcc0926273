"""andriushchenko2023, Figure 1: adaptive sharpness of a linear model whose weights are scaled."""

from typing import Any

import pandas as pd
import xarray as xr

from flatlab.lab.figures.render import Settings
from flatlab.lab.tables.networks import ResultTables
from flatlab.lab.tables.selection import through_training

NEIGHBOURHOODS = ("ball", "adaptive-l2", "adaptive-linf")
TRAINING = "training"
COLUMNS = ["panel", "line", "x", "mean", "least", "largest", "networks"]


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """A point of a line per row: mean, least and largest over the networks, and their number.

    x: the factor, in panels by neighbourhood, or the step of gradient descent.
    """
    table = through_training(tables.table("linear-grid"), followed=False).sel(samples="train")
    if not table.sizes["run"]:
        return pd.DataFrame(columns=COLUMNS)
    end = table.isel(checkpoint=-1)
    factors = end["weight_factor"].max("run").values  # the same for all runs
    lines: list[tuple[str, str, Any, xr.DataArray]] = []
    for name in NEIGHBOURHOODS:
        here = end["scaled_worst_sharpness"].sel(neighbourhood=name)
        plain = here.sel(logits="plain")
        lines += [(name, str(r), factors, plain.sel(radius=r)) for r in here["radius"].values]
        lines.append((name, "normalized", factors, here.sel(logits="normalized").max("radius")))
    steps = table["checkpoint"].values
    here = table["worst_sharpness"].sel(neighbourhood="ball", logits="plain")
    lines += [(TRAINING, str(r), steps, here.sel(radius=r)) for r in here["radius"].values]
    lines.append((TRAINING, "loss", steps, table["train_loss"]))
    parts = []
    for panel, line, x, values in lines:
        over = (values.mean("run"), values.min("run"), values.max("run"))
        content = (panel, line, x, *(part.values for part in over), values.sizes["run"])
        parts.append(pd.DataFrame(dict(zip(COLUMNS, content, strict=True))))
    return pd.concat(parts, ignore_index=True)
