"""beyond, Figure 10: how sharpness and compression go together in time, by how time is read."""

from typing import Any

import pandas as pd

from flatlab.lab.figures.points import forest
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import Look, legend, letters
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.chen2026 import claims_trends as chen
from flatlab.stats.estimate import Estimate

GRID, SPARSE = "mlp-dense-grid", chen.MLP
WORDS = ("MLS", "NMLS", "log volume", "G")
READINGS = {
    "sparse": ("after interpolation, six to eight checkpoints", Look("#949494", "o", "")),
    "dense": ("after interpolation, every 7,500 iterations", Look("#0173b2", "D", "")),
    "training": ("whole training, by iterations", Look("#de8f05", "s", "")),
    "training-log": ("whole training, by their logarithm", Look("#029e73", "^", "")),
}
COLUMNS = ["quantity", "lr", "batch_size", "reading", "rho", "low", "high", "networks"]


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """A row per quantity, setting and reading: its correlation with sharpness over time."""
    sparse, watched = tables[SPARSE], tables[GRID]
    rows = [
        [word, *setting.values(), reading, *_numbers(rho)]
        for word in WORDS
        for setting in chen.SETTINGS
        for reading, rho in _rhos(sparse.where(**setting), watched.where(**setting), word).items()
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _rhos(sparse: Any, watched: Any, word: str) -> dict[str, Estimate]:
    return {
        "sparse": chen.rho_with_sharpness(sparse.curves, word, "I", "iterations"),
        "dense": chen.rho_with_sharpness(watched.curves, word, "I", "iterations"),
        "training": chen.rho_with_sharpness(watched.curves, word, "training", "iterations"),
        "training-log": chen.rho_with_sharpness(watched.curves, word, "training", "log"),
    }


def _numbers(rho: Estimate) -> list[float]:
    return [rho.value, *rho.interval(), rho.n]


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per quantity, in it a line per setting and reading."""
    axes = fig.subplots(1, len(WORDS))
    numbers = frame.set_index(["quantity", "lr", "batch_size", "reading"])[["rho", "low", "high"]]
    for word, ax in zip(WORDS, axes, strict=True):
        rows = {
            f"rate {lr:g}, batches of {size}": [
                (look, numbers.loc[word, lr, size, reading])
                for reading, (_, look) in READINGS.items()
            ]
            for _, lr, size in numbers.loc[[word]].index.droplevel("reading").unique()
        }
        forest(ax, rows, r"$\rho_t$ with $\sqrt{S}$, 95 % interval")
        ax.set_title(word, loc="left")
    letters(list(axes))
    legend(fig, dict(READINGS.values()))
