"""beyond, Figure 10: how sharpness and compression go together in time, by how time is read."""

from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import Look, legend, letters
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.chen2026 import claims_trends as chen
from flatlab.stats.estimate import Estimate

GRID, SPARSE = "mlp-dense-grid", chen.MLP
WORDS = {"MLS": "MLS", "NMLS": "NMLS", "log volume": "log volume", "G": "G"}
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
    settings = list(frame[["lr", "batch_size"]].drop_duplicates().itertuples(index=False))
    axes = fig.subplots(1, len(WORDS), sharex=True, sharey=True)
    shifts = np.linspace(0.27, -0.27, len(READINGS))
    for (word, title), ax in zip(WORDS.items(), axes, strict=True):
        for shift, (reading, (_, look)) in zip(shifts, READINGS.items(), strict=True):
            here = frame[(frame["quantity"] == word) & (frame["reading"] == reading)]
            y = shift - np.arange(len(settings))
            ax.hlines(y, here["low"], here["high"], color=look.color, lw=0.9)
            ax.plot(here["rho"], y, ms=3, **look.options)
        ax.axvline(0, color="0.6", lw=0.7, zorder=0.5)
        ax.set(xlim=(-1.05, 1.05), xlabel=r"$\rho_t$ with $\sqrt{S}$", xticks=[-1, 0, 1])
        ax.set_title(title, loc="left")
        ax.grid(axis="x", lw=0.3, color="0.85")
    names = [f"rate {lr:g}, batches of {size}" for lr, size in settings]
    axes[0].set_yticks(-np.arange(len(settings)), names, fontsize=6.5)
    letters(list(axes))
    legend(fig, dict(READINGS.values()))
