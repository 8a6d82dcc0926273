"""macdonald2023, Figure 32: eight points fitted from rough and from smooth initializations.

It is drawn here, since it shows functions of single networks and the points that they fit.
"""

from typing import Any

import pandas as pd

from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import letters
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.macdonald2023.norms import ACTIVATIONS, INITIALIZATIONS, JACOBIAN

COLORS = {"high": "#d55e00", "low": "#0173b2"}
COLUMNS = ["row", "activation", "frequency", "run", "x", "y"]


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """Rows `curve` and `point` with x and y, and `norm` with the Jacobian norm as y."""
    parts = []
    for grid, activation in ACTIVATIONS.items():
        networks = tables[grid]
        for frequency, initialization in INITIALIZATIONS[grid].items():
            some = networks.where(initialization=initialization).data
            for run in some["run"].values[:1]:
                first = some.sel(run=run)
                for row, x, y in (
                    ("curve", first["curve_input"].values, first["curve_output"].values),
                    ("point", first["fitted_input"].values, first["fitted_target"].values),
                    ("norm", [float("nan")], [first[JACOBIAN].item()]),
                ):
                    content = (row, activation, frequency, run, x, y)
                    parts.append(pd.DataFrame(dict(zip(COLUMNS, content, strict=True))))
    return pd.concat(parts or [pd.DataFrame(columns=COLUMNS)], ignore_index=True)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A row per activation, a column per frequency."""
    axes = fig.subplots(len(ACTIVATIONS), len(COLORS), squeeze=False, sharex=True, sharey="row")
    for activation, row in zip(ACTIVATIONS.values(), axes, strict=True):
        for (frequency, color), ax in zip(COLORS.items(), row, strict=True):
            here = frame[(frame["activation"] == activation) & (frame["frequency"] == frequency)]
            curve, points, norm = (here[here["row"] == kind] for kind in ("curve", "point", "norm"))
            ax.plot(curve["x"], curve["y"], color=color, lw=1.3)
            ax.plot(points["x"], points["y"], "o", color="0.1", ms=4.5, mew=0, zorder=3)
            ax.set_title(f"{activation} network, {frequency} frequency", loc="left")
            text = "no network" if norm.empty else rf"$\max\,|f'|$ = {norm['y'].iloc[0]:.3g}"
            ax.set_title(text, loc="right", fontsize=6.5)
            ax.set(xlabel="$x$ (no unit)", ylabel="$y = f(x)$ (no unit)")
            ax.label_outer()
    letters(axes.flat)
