"""andriushchenko2023, Figure 7: what predicts the test loss of diagonal linear networks."""

from typing import Any

import pandas as pd

from flatlab.papers.andriushchenko2023._networks import GRID, fitted, not_fitted
from flatlab.plotting.render import Settings, Tables
from flatlab.plotting.style import correlation, letters, plain_numbers
from flatlab.tables.ranks import rank_correlations

PANELS = {
    "norm": ("half_trace_balanced", "norm_1"),
    "trace": ("trace_none", "test_loss"),
    "rescaled trace": ("trace_balanced", "test_loss"),
    "both": ("trace_balanced", "lambda_max_balanced"),
    "rescaled eigenvalue": ("lambda_max_balanced", "test_loss"),
    "printed": ("trace_printed", "test_loss"),
}
"""Abscissa and ordinate."""

LABELS = {
    "norm_1": r"$\|u \odot v\|_1$",
    "test_loss": r"test loss $\|u \odot v - \beta^*\|^2/d$",
    "half_trace_balanced": r"Tr($H$ rescaled)/2",
    "trace_none": r"Tr $H$",
    "trace_balanced": r"Tr($H$ rescaled)",
    "trace_printed": r"Tr($H$ rescaled as printed)",
    "lambda_max_balanced": r"$\lambda_{\max}$($H$ rescaled)",
}


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """Rows `run`: a network in a panel.  Rows `tau`: tau, low, high of a panel, over `networks`;
    `not_fitted` is the number of those that did not reach the training loss.
    """
    networks = fitted(tables[GRID])
    networks["half_trace_balanced"] = networks["trace_balanced"] / 2
    parts = []
    for panel, (x, y) in PANELS.items():
        points = networks.rename(columns={x: "x", y: "y"})[["run", "lr", "initial_trace", "x", "y"]]
        parts.append(points.assign(row="run", panel=panel))
        (tau,) = rank_correlations(points, ("x", "y"))
        low, high = tau.interval()
        row = {"row": "tau", "panel": panel, "networks": tau.n, "tau": tau.value}
        row |= {"low": low, "high": high, "not_fitted": not_fitted(tables[GRID])}
        parts.append(pd.DataFrame([row]))
    return pd.concat(parts, ignore_index=True)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """Six panels on logarithmic axes, with the initialization as colours."""
    from matplotlib.colors import LogNorm

    runs = frame[frame["row"] == "run"]
    facts = frame[frame["row"] == "tau"].set_index("panel")
    starts = runs["initial_trace"]
    colors = LogNorm(starts.min(), starts.max()) if len(runs) else None
    axes = fig.subplots(2, 3)
    for ax, (panel, (x, y)) in zip(axes.flat, PANELS.items(), strict=True):
        points = runs[runs["panel"] == panel]
        style = {"c": points["initial_trace"], "norm": colors, "cmap": "viridis", "s": 8, "lw": 0}
        shown = ax.scatter(points["x"], points["y"], **style)
        ax.set(xlabel=LABELS[x], ylabel=LABELS[y])
        if len(points):
            ax.set(xscale="log", yscale="log")
            plain_numbers(ax)
        if panel == "norm" and len(points):
            ends = [points["x"].min(), points["x"].max()]
            ax.plot(ends, ends, color="0.4", lw=0.8, zorder=0.5)
        text = correlation(*facts.loc[panel, ["tau", "low", "high"]], symbol=r"\tau")
        ax.set_title(text.replace("\n", " "), loc="left")
        ax.grid(which="major", lw=0.3, color="0.85")
    letters(axes.flat)
    row = facts.iloc[0]
    label = f"Tr $H$ before training ({row['networks']:.0f} networks"
    if row["not_fitted"]:
        label += f"; {row['not_fitted']:.0f} more did not reach the training loss"
    bar = fig.colorbar(shown, ax=axes, label=f"{label})", shrink=0.6, aspect=40, location="bottom")
    bar.ax.xaxis.set_tick_params(pad=1)
