"""Pair plots: every quantity against every other, one point per network.

Used by the figures of chen2026 and chen2024 that correlate quantities at the end of training.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
import xarray as xr

from flatlab.plotting.style import LABELS, correlation, in_words, legend, look_of_settings
from flatlab.stats import Correlations
from flatlab.tables.selection import columns_of, end_of_training, of_seeds

HEADROOM = 0.5
"""Share of a panel's data range that is added above it, for the correlation."""

CHEN2026 = (
    "local_dimension",
    "root_sharpness",
    "log_volume",
    "mls",
    "nmls",
    "generalization_gap",
    "bound_d",
    "nmls_bound",
    "relative_flatness",
)
CHEN2024 = ("local_dimension", "root_sharpness", "log_volume", "g", "mls", "test_loss")
"""In the order of the papers; chen2024 adds C and D for perceptrons."""


def frame(
    table: xr.Dataset,
    correlations: xr.Dataset,
    names: Sequence[str],
    seeds: Iterable[int] | None = None,
) -> pd.DataFrame:
    """What a pair plot shows: rows `run` with setting, hyper-parameters and quantities of each
    network, then rows `rho`, `low` and `high` with the correlation matrix and its intervals.

    seeds: shows these alone, with correlations of their own instead of those of the grid.
    """
    chosen = end_of_training(table)
    if seeds is None:
        pooled = correlations.sel(kind="pooled", x=list(names), y=list(names))
        matrices = {kind: pooled[kind].values for kind in ("rho", "low", "high")}
    else:
        chosen = of_seeds(chosen, seeds)
        own = Correlations(columns_of(chosen, names), list(chosen["setting"].values))
        matrices = dict(zip(("rho", "low", "high"), own.matrix("pooled"), strict=False))
    head = {
        "row": "run",
        "name": chosen["run"].values,
        "setting": in_words(chosen),
    }
    parts = [pd.DataFrame({**head, **columns_of(chosen, names)})]
    for kind, values in matrices.items():
        matrix = pd.DataFrame(values, columns=list(names))
        matrix.insert(0, "row", kind)
        matrix.insert(1, "name", list(names))
        parts.append(matrix)
    return pd.concat(parts, ignore_index=True)


def draw(fig: Any, frame: pd.DataFrame, names: Sequence[str]) -> None:
    """Scatter plots with Pearson's rho and its interval top-left, histograms on the diagonal."""
    runs = frame[frame["row"] == "run"]
    rho, low, high = (
        frame[frame["row"] == kind].set_index("name")[list(names)]
        for kind in ("rho", "low", "high")
    )
    looks = look_of_settings(runs["setting"])
    axes = fig.subplots(len(names), len(names), sharex="col", sharey="row", squeeze=False)
    for i, y in enumerate(names):
        for j, x in enumerate(names):
            ax = axes[i, j]
            if i == j:
                _histogram(ax, runs[x])
            else:
                points_of_settings(ax, runs, x, y)
                text = correlation(*(float(m[x][y]) for m in (rho, low, high)))
                ax.text(0.04, 0.96, text, transform=ax.transAxes, va="top", fontsize=6.5)
            ax.tick_params(width=0.5, length=2, pad=1.5)
        limit(axes[i, 0], "y", runs[y], headroom=HEADROOM)
        limit(axes[-1, i], "x", runs[y])
        # a fixed place: the labels of a row of panels line up, and laying them out costs nothing
        axes[i, 0].set_ylabel(LABELS[y], fontsize=8.5)
        axes[i, 0].yaxis.set_label_coords(-0.3, 0.5)
        axes[-1, i].set_xlabel(LABELS[y], fontsize=8.5)
        axes[-1, i].xaxis.set_label_coords(0.5, -0.2)
    handles = [
        axes[0, -1].plot([], [], look.marker, color=look.color, ms=5, mew=0, label=setting)[0]
        for setting, look in looks.items()
    ]
    legend(fig, handles, handletextpad=0.1)


def points_of_settings(ax: Any, runs: pd.DataFrame, x: str, y: str, size: float = 2.6) -> None:
    """One point per run, settings told apart."""
    for setting, look in look_of_settings(runs["setting"]).items():
        points = runs[runs["setting"] == setting]
        style = {"color": look.color, "ms": size, "mew": 0, "alpha": 0.85}
        ax.plot(points[x], points[y], look.marker, **style)


def limit(ax: Any, axis: str, values: pd.Series, headroom: float = 0.06, ticks: int = 3) -> None:
    """Limits and few ticks of an axis; room above the points where a text stands."""
    from matplotlib.ticker import MaxNLocator

    finite = values[values.abs() < float("inf")]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 1.0)
    span = (high - low) or abs(high) or 1.0
    getattr(ax, f"set_{axis}lim")(low - 0.06 * span, high + headroom * span)
    getattr(ax, f"{axis}axis").set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))


def _histogram(ax: Any, values: pd.Series) -> None:
    """Counts on an axis of their own: the panel's y axis belongs to its row."""
    counts = ax.twinx()
    finite = values[values.abs() < float("inf")]
    if len(finite):
        bins = min(15, round(1.5 * len(finite) ** 0.5))  # 7 of 20 networks, 15 of 100
        counts.hist(finite, bins, color=("0.7", 0.75), edgecolor="white", linewidth=0.4)
    counts.set_axis_off()
