"""Template `Scatter`: pairs of quantities at the end of training, a point per network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.plotting.points import HEADROOM, legend_of_settings, limit, points_of_settings
from flatlab.plotting.quantities import require
from flatlab.plotting.style import correlation, heading, in_words, title_of
from flatlab.tables.selection import columns_of, end_of_training


def frame(
    figure: Mapping[str, Any],
    tables: Mapping[str, xr.Dataset],
    correlations: Mapping[str, xr.Dataset],
) -> pd.DataFrame:
    """Rows `run`: a network's two quantities.  Rows `rho`: their correlation, its interval."""
    parts = []
    for experiment, table in tables.items():
        require(table, [name for pair in figure["pairs"] for name in pair])
        chosen = end_of_training(table)
        for x, y in figure["pairs"]:
            columns = columns_of(chosen, [x, y])
            runs = {
                "name": chosen["run"].values,
                "setting": in_words(chosen),
                "x_value": columns[x],
                "y_value": columns[y],
            }
            pair = correlations[experiment].sel(kind="pooled", x=x, y=y)
            rho = {kind: [float(pair[kind])] for kind in ("rho", "low", "high")}
            for row, values in (("run", runs), ("rho", rho)):
                head = {"row": row, "experiment": heading(table), "x": x, "y": y}
                parts.append(pd.DataFrame({**head, **values}))
    return pd.concat(parts, ignore_index=True)


def draw(fig: Any, frame: pd.DataFrame, figure: Mapping[str, Any]) -> None:
    """A column per experiment, a row per pair."""
    experiments = list(dict.fromkeys(frame["experiment"]))
    axes = fig.subplots(len(figure["pairs"]), len(experiments), squeeze=False)
    for number, ((x, y), row) in enumerate(zip(figure["pairs"], axes, strict=True)):
        for experiment, ax in zip(experiments, row, strict=True):
            here = frame[
                (frame["experiment"] == experiment) & (frame["x"] == x) & (frame["y"] == y)
            ]
            runs, rho = (here[here["row"] == kind] for kind in ("run", "rho"))
            points_of_settings(ax, runs, "x_value", "y_value", size=4)
            if figure["fit"]:
                _fit(ax, runs)
            text = correlation(*rho[["rho", "low", "high"]].iloc[0])
            ax.text(0.03, 0.97, text, transform=ax.transAxes, va="top", fontsize=8)
            limit(ax, "x", runs["x_value"], ticks=6)
            limit(ax, "y", runs["y_value"], headroom=HEADROOM / 2, ticks=6)
            ax.set_xlabel(title_of(x))
            ax.set_ylabel(title_of(y))
            ax.set_title("" if number else experiment, loc="left")
    legend_of_settings(fig, frame["setting"].dropna())


def _fit(ax: Any, runs: pd.DataFrame) -> None:
    """The line of least squares, as far as there are networks; none where x does not vary."""
    from seaborn import regplot

    finite = runs[np.isfinite(runs["x_value"]) & np.isfinite(runs["y_value"])]
    if len(finite) and np.ptp(finite["x_value"]) > 0:
        line = {"color": "0.25", "lw": 1, "zorder": 0.9}
        regplot(finite, x="x_value", y="y_value", scatter=False, ci=None, line_kws=line, ax=ax)
