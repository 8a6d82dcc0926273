"""beyond, Figure 3: correlations between networks depend on when they are measured."""

from typing import Any

import pandas as pd

from flatlab.plotting import Settings, Tables
from flatlab.plotting.spread import horizontal, log_spaced
from flatlab.plotting.style import KINDS, Look, legend, letters
from flatlab.plotting.words import headings
from flatlab.stats.correlation import Correlations
from flatlab.tables.selection import columns_of, measured, through_training

PAIRS = {
    ("root_sharpness", "mls"): r"$\sqrt{S}$ and MLS",
    ("root_sharpness", "log_volume"): r"$\sqrt{S}$ and log volume",
    ("mls", "bound_d"): "MLS and its bound D",
    ("nmls", "nmls_bound"): "NMLS and its bound",
}
COLUMNS = ["experiment", "kind", "x", "y", "iteration", "rho", "low", "high", "runs"]

FOLLOWED = True
"""Networks that were measured at the end alone are not shown."""


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """A correlation of one kind, at one checkpoint, with its interval, per row."""
    rows = []
    names = list(dict.fromkeys(name for pair in PAIRS for name in pair))
    titles = headings(tables)
    for experiment, table in tables.items():
        runs = through_training(table).sel(samples="train")
        # Only checkpoints that all settings have: the same runs are compared at each of them.
        steps = runs["checkpoint"].values[measured(runs).all("run").values]
        first = 1 if log_spaced(steps) else 0  # where a logarithmic axis can begin
        for step in steps[steps >= first]:
            at = runs.sel(checkpoint=step)
            settings, loss = list(at["setting"].values), at["train_loss"].values
            found = Correlations(columns_of(at, names), settings, loss)
            for kind in KINDS:
                matrices = found.matrix(kind)
                for x, y in PAIRS:
                    place = found.names.index(x), found.names.index(y)
                    numbers = [*(matrix[place] for matrix in matrices), found.runs_used(x, y)]
                    rows.append([titles[experiment], kind, x, y, float(step), *numbers])
    return pd.DataFrame(rows, columns=COLUMNS)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A row per experiment, a column per pair, a line per kind of correlation."""
    experiments = list(dict.fromkeys(frame["experiment"]))
    every = fig.subplots(max(1, len(experiments)), len(PAIRS), sharey=True, squeeze=False)
    for number, (experiment, axes) in enumerate(zip(experiments, every, strict=False)):
        rows = frame[frame["experiment"] == experiment]
        for ((x, y), title), ax in zip(PAIRS.items(), axes, strict=True):
            here = rows[(rows["x"] == x) & (rows["y"] == y)]
            for kind, (color, marker, _) in KINDS.items():
                line = here[here["kind"] == kind].set_index("iteration")
                band = line.index, line["low"], line["high"]
                ax.plot(line["rho"], ms=2, **Look(color, marker).options)
                ax.fill_between(*band, color=color, alpha=0.15, lw=0)
            ax.axhline(0, color="0.6", lw=0.7, zorder=0.5)
            ax.set_ylim(-1.05, 1.05)
            ax.set_title("" if number else title, loc="left")
            ax.set_xlabel(horizontal(ax, sorted(set(rows["iteration"]))))
        axes[0].set_ylabel(f"{experiment}\nPearson's $\\rho$")
    letters(every.flat)
    legend(fig, {name: Look(color, marker) for color, marker, name in KINDS.values()})
