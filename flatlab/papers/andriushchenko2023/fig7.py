"""andriushchenko2023, Figure 7: what predicts the test loss of diagonal linear networks."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from flatlab.papers.andriushchenko2023._networks import (
    GRID,
    LARGEST,
    NORM,
    START,
    TEST_LOSS,
    TRACE,
    fitted,
    not_fitted,
)
from flatlab.plotting.style import correlation, plain_numbers
from flatlab.stats.trends import tau
from flatlab.tables import Tables

PANELS = {
    "norm": (f"half_{TRACE}_balanced", NORM),
    "trace": (f"{TRACE}_none", TEST_LOSS),
    "rescaled trace": (f"{TRACE}_balanced", TEST_LOSS),
    "both": (f"{TRACE}_balanced", f"{LARGEST}_balanced"),
    "rescaled eigenvalue": (f"{LARGEST}_balanced", TEST_LOSS),
    "printed": (f"{TRACE}_printed", TEST_LOSS),
}
"""Abscissa and ordinate."""

PRINTED = {"rescaled trace": "; the paper: about 0.8"}
LABELS = {
    NORM: r"$\|u \odot v\|_1$",
    TEST_LOSS: r"test loss $\|u \odot v - \beta^*\|^2/(2d)$",
    f"half_{TRACE}_balanced": r"Tr($H$ rescaled)/2",
    f"{TRACE}_none": r"Tr $H$",
    f"{TRACE}_balanced": r"Tr($H$ rescaled)",
    f"{TRACE}_printed": r"Tr($H$ rescaled as printed)",
    f"{LARGEST}_balanced": r"$\lambda_{\max}$($H$ rescaled)",
}


def frame(figure: Mapping[str, Any], tables: Tables, correlations: Tables) -> pd.DataFrame:
    """Rows `run`: a network in a panel.  Rows `tau`: tau, low, high of a panel, over `networks`;
    `not_fitted` is the number of those that did not reach the training loss.
    """
    networks = fitted(tables[GRID])
    networks[f"half_{TRACE}_balanced"] = networks[f"{TRACE}_balanced"] / 2
    parts = []
    for panel, (x, y) in PANELS.items():
        points = networks.rename(columns={x: "x", y: "y"})[["run", "lr", START, "x", "y"]]
        parts.append(points.assign(row="run", panel=panel))
        finite = points[np.isfinite(points["x"]) & np.isfinite(points["y"])]
        row = {"row": "tau", "panel": panel, "networks": len(finite)}
        row |= dict(zip(("tau", "low", "high"), _tau(finite), strict=True))
        parts.append(pd.DataFrame([{**row, "not_fitted": not_fitted(tables[GRID])}]))
    return pd.concat(parts, ignore_index=True)


def _tau(points: pd.DataFrame) -> tuple[float, float, float]:
    if len(points) < 3:
        return (float("nan"),) * 3
    strata = np.zeros(len(points), np.int64)
    found = tau("tau", points["x"].to_numpy(), points["y"].to_numpy(), strata)
    return found.value, *found.interval()


def draw(fig: Any, frame: pd.DataFrame, figure: Mapping[str, Any]) -> None:
    """Six panels on logarithmic axes, with the initialization as colours."""
    from matplotlib.colors import LogNorm

    runs = frame[frame["row"] == "run"]
    facts = frame[frame["row"] == "tau"].set_index("panel")
    colors = LogNorm(runs[START].min(), runs[START].max()) if len(runs) else None
    axes = fig.subplots(2, 3)
    for ax, (panel, (x, y)) in zip(axes.flat, PANELS.items(), strict=True):
        points = runs[runs["panel"] == panel]
        style = {"c": points[START], "norm": colors, "cmap": "viridis", "s": 14, "lw": 0}
        shown = ax.scatter(points["x"], points["y"], **style)
        ax.set(xlabel=LABELS[x], ylabel=LABELS[y])
        if len(points):
            ax.set(xscale="log", yscale="log")
            plain_numbers(ax)
        if panel == "norm" and len(points):
            ends = [points["x"].min(), points["x"].max()]
            ax.plot(ends, ends, color="0.4", lw=0.8, zorder=0.5)
        text = correlation(*facts.loc[panel, ["tau", "low", "high"]], symbol=r"\tau")
        ax.set_title(text.replace("\n", " ") + PRINTED.get(panel, ""), loc="left")
        ax.grid(which="major", lw=0.3, color="0.85")
    row = facts.iloc[0]
    label = f"Tr H before training; {row['networks']:.0f} networks"
    if row["not_fitted"]:
        label += f", {row['not_fitted']:.0f} more did not reach the training loss"
    fig.colorbar(shown, ax=axes, label=label, shrink=0.6, aspect=30)
