"""Template `Scatter`: pairs of quantities at the end of training, a point per network."""

from typing import Any

import numpy as np
import pandas as pd

from flatlab.plotting import labels, style
from flatlab.plotting.quantities import require
from flatlab.plotting.render import Settings, Tables
from flatlab.plotting.style import OTHER_KINDS
from flatlab.tables.selection import columns_of, end_of_training

NUMBERS = ["rho", "low", "high", *OTHER_KINDS]


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


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A column per experiment, a row per pair."""
    experiments = list(dict.fromkeys(frame["experiment"]))
    panels = frame.groupby(["x", "y", "experiment"])
    axes = fig.subplots(len(figure["pairs"]), len(experiments), squeeze=False)
    for (row, column), ax in np.ndenumerate(axes):
        (x, y), experiment = figure["pairs"][row], experiments[column]
        here = panels.get_group((x, y, experiment)).set_index("row")
        runs = here.loc[["run"]]
        style.points_of_settings(ax, runs, "x_value", "y_value", size=2.6)
        rho, low, high, *others = map(float, here.loc["rho", NUMBERS])
        text = style.correlation(rho, low, high, others=dict(zip(OTHER_KINDS, others, strict=True)))
        ax.text(0.03, 0.97, text, transform=ax.transAxes, va="top", fontsize=6)
        style.limit(ax, "x", runs["x_value"], ticks=4)
        style.limit(ax, "y", runs["y_value"], headroom=style.HEADROOM / 2, ticks=4)
        ax.set(xlabel=labels.title_of(figure, x), ylabel=labels.title_of(figure, y))
        ax.set_title("" if row else experiment, loc="left")
    style.letters(axes.flat)
    style.legend_of_settings(fig, frame["setting"].dropna())
