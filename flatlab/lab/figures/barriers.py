"""The picture of `flatlab.barriers`: a matrix of the barriers between networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.figures.looks import MAP
from flatlab.lab.figures.panels import Reports, panels

NUMBERED = 12
"""Networks up to which the barriers are written into the matrix."""


def barriers_frame(reports: Reports) -> pd.DataFrame:
    """Barriers of pairs: report, network, other, barrier, highest_at, units."""
    rows = []
    for name, report in reports.items():
        pairs = report[["barrier", "highest_at"]].to_dataframe().reset_index()
        rows.append(pairs.assign(report=name, units=report["barrier"].attrs.get("units", "")))
    columns = ["report", "network", "other", "barrier", "highest_at", "units"]
    return pd.concat(rows)[columns].reset_index(drop=True)


def draw_barriers(fig: Any, frame: pd.DataFrame, title: str = "") -> None:
    """A matrix for each report, all on one scale."""
    if title:
        fig.suptitle(title, x=0.01, ha="left")
    high = float(np.nanmax(frame["barrier"])) or 1.0
    for ax, rows in panels(fig, frame, ["report"]):
        grid = rows.pivot_table(index="network", columns="other", values="barrier", dropna=False)
        names = list(dict.fromkeys(rows["network"]))
        values = grid.loc[names, names].values
        drawn = ax.imshow(values, cmap=MAP, vmin=0, vmax=high)
        ax.grid(visible=False)
        ax.set_xticks(range(len(names)), names)
        ax.set_yticks(range(len(names)), names)
        ax.set(xlabel="other network", ylabel="network")
        if len(names) <= NUMBERED:
            for (row, column), value in np.ndenumerate(values):
                color = "white" if value < 0.6 * high else "0.1"
                text = {"ha": "center", "va": "center", "color": color, "fontsize": 5}
                ax.text(column, row, f"{value:.2g}", **text)
        fig.colorbar(drawn, ax=ax, shrink=0.8).set_label("excess loss")
