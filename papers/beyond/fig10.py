"""beyond, Figure 10: how sharpness and compression go together in time, by how time is read."""

from itertools import product
from typing import Any

import pandas as pd

from flatlab.lab.figures.points import forest
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import Look, legend, letters
from flatlab.lab.tables.curves import Window
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.chen2026 import claims_trends as chen
from flatlab.stats.time_weights import Weight

GRID, SPARSE = "mlp-dense-grid", chen.MLP
WORDS = ("MLS", "NMLS", "log volume", "G")
READINGS: dict[str, tuple[str, Window, Weight]] = {
    "sparse": (SPARSE, "I", "iterations"),
    "dense": (GRID, "I", "iterations"),
    "training": (GRID, "training", "iterations"),
    "training-log": (GRID, "training", "log"),
}
LOOKS = {
    "after interpolation, six to eight checkpoints": Look("#949494", "o", ""),
    "after interpolation, every 7,500 iterations": Look("#0173b2", "D", ""),
    "whole training, by iterations": Look("#de8f05", "s", ""),
    "whole training, by their logarithm": Look("#029e73", "^", ""),
}
"""Of the readings, in their order."""
COLUMNS = ["quantity", "lr", "batch_size", "reading", "rho", "low", "high", "networks"]


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """A row per quantity, setting and reading: its correlation with sharpness over time."""
    rows = []
    for word, setting, reading in product(WORDS, chen.SETTINGS, READINGS):
        grid, window, by = READINGS[reading]
        rho = chen.rho_with_sharpness(tables[grid].where(**setting).curves, word, window, by)
        rows.append([word, *setting.values(), reading, *rho.numbers])
    return pd.DataFrame(rows, columns=COLUMNS)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per quantity, in it a line per setting and reading."""
    axes = fig.subplots(1, len(WORDS))
    for word, ax in zip(WORDS, axes, strict=True):
        settings = frame[frame["quantity"] == word].groupby(["lr", "batch_size"], sort=False)
        rows = {
            f"rate {lr:g}, batches of {size}": [*zip(LOOKS.values(), numbers, strict=True)]
            for (lr, size), here in settings
            for numbers in [here[["rho", "low", "high"]].to_numpy()]
        }
        forest(ax, rows, r"$\rho_t$ with $\sqrt{S}$, 95 % interval")
        ax.set_title(word, loc="left")
    letters(list(axes))
    legend(fig, LOOKS)
