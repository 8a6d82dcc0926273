"""beyond, Figure 12: what the learning rates of lower and upper layers do."""

from typing import Any, get_args

import numpy as np
import pandas as pd

from flatlab.lab.figures import style
from flatlab.lab.figures.points import forest
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import Look, legend, letters
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond import _depth as depth
from flatlab.papers.beyond._depth import GRID, Half

PANELS = {
    "sensitivity": {"log mls": "MLS", "log nmls": "NMLS"},
    "sharpness": {
        "log root_sharpness": r"$\sqrt{S}$",
        **{f"log sharpness_per_layer[{layer}]": f"$S(W_{layer + 1})$" for layer in range(4)},
    },
    "volume": {"log_volume": "log volume"},
}
"""Columns on which effects are shown, and what they are called."""
LOOKS = {"lower": Look("#0173b2", "o", ""), "upper": Look("#de8f05", "D", "")}
COLUMNS = ["panel", "quantity", "line", "value", "low", "high", "units"]


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """A row per effect of a half on a quantity; in the panel `correlation` per correlation."""
    networks = tables[GRID]
    rows = [
        [panel, column, half, *depth.effect(networks, column, half).numbers]
        for panel, columns in PANELS.items()
        for column in columns
        for half in get_args(Half)
    ]
    for name, rho in depth.rhos(networks).items():
        rows.append(["correlation", "log mls and log S(W_1)", name, *rho.numbers])
    return pd.DataFrame(rows, columns=COLUMNS)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """Effects by quantity, and the correlation with its null."""
    axes = fig.subplots(1, 4, width_ratios=(1, 1, 0.7, 0.9))
    for (panel, names), ax in zip(PANELS.items(), axes, strict=False):
        here = frame[frame["panel"] == panel]
        for shift, (half, look) in zip((0.12, -0.12), LOOKS.items(), strict=True):
            rows = here[here["line"] == half]
            y = shift - np.arange(len(rows))
            style.interval(ax, rows["value"], rows["low"], rows["high"], y, look)
        ax.axvline(0, color="0.6", lw=0.7, zorder=0.5)
        ax.set_yticks(-np.arange(len(names)), [*names.values()], fontsize=6.5)
        ax.set_title(panel, loc="left")
        ax.set(xlabel="nats per doubling", ylim=(0.5 - len(names), 0.5))
        ax.grid(axis="x", lw=0.3, color="0.85")
    null = frame[frame["panel"] == "correlation"].set_index("line")[["value", "low", "high"]]
    rhos = {
        str(line).replace("W_1", "$W_1$"): [(Look("0.3", "s"), rho)]
        for line, rho in null.iterrows()
    }
    forest(axes[-1], rhos, r"$\rho$ of log MLS and log $S(W_1)$")
    axes[-1].set_title("correlation", loc="left")
    letters(list(axes))
    legend(fig, {f"rate of the {half} two layers": look for half, look in LOOKS.items()})
