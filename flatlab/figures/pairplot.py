"""Pair plots: every quantity against every other, one point per network.

Used by the figures of chen2026 and chen2024 that correlate quantities at the end of training.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
import xarray as xr

from flatlab.tables.selection import columns_of, end_of_training, hyperparameters

HEADROOM = 0.5
"""Share of a panel's data range that is added above it, for the correlation."""

WORDS = {"lr": "learning rate", "batch_size": "batch size"}
MARKERS = "osD^vP*X<>"


def frame(table: xr.Dataset, correlations: xr.Dataset, labels: Mapping[str, str]) -> pd.DataFrame:
    """What a pair plot shows: rows `run` with setting, hyper-parameters and quantities of each
    network, then rows `rho`, `low` and `high` with the correlation matrix and its intervals.
    """
    chosen = end_of_training(table)
    names = list(labels)
    head = {
        "row": "run",
        "name": chosen["run"].values,
        "setting": _settings(chosen),
    }
    parts = [pd.DataFrame({**head, **columns_of(chosen, names)})]
    pooled = correlations.sel(kind="pooled", x=names, y=names)
    for kind in ("rho", "low", "high"):
        matrix = pd.DataFrame(pooled[kind].values, columns=names)
        matrix.insert(0, "row", kind)
        matrix.insert(1, "name", names)
        parts.append(matrix)
    return pd.concat(parts, ignore_index=True)


def draw(fig: Any, frame: pd.DataFrame, labels: Mapping[str, str]) -> None:
    """Scatter plots with Pearson's rho and its interval top-left, histograms on the diagonal."""
    import seaborn as sns

    runs = frame[frame["row"] == "run"]
    rho, low, high = (
        frame[frame["row"] == kind].set_index("name")[list(labels)]
        for kind in ("rho", "low", "high")
    )
    settings = list(dict.fromkeys(runs["setting"]))
    colors = sns.color_palette("colorblind", len(settings))
    looks = [
        (s, c, MARKERS[i % len(MARKERS)])
        for i, (s, c) in enumerate(zip(settings, colors, strict=True))
    ]
    axes = fig.subplots(len(labels), len(labels), sharex="col", sharey="row", squeeze=False)
    for i, y in enumerate(labels):
        for j, x in enumerate(labels):
            ax = axes[i, j]
            if i == j:
                _histogram(ax, runs[x])
            else:
                for setting, color, marker in looks:
                    points = runs[runs["setting"] == setting]
                    ax.plot(points[x], points[y], marker, color=color, ms=2.6, mew=0, alpha=0.85)
                text = _rho(*(float(m[x][y]) for m in (rho, low, high)))
                ax.text(0.04, 0.96, text, transform=ax.transAxes, va="top", fontsize=6.5)
            ax.tick_params(width=0.5, length=2, pad=1.5)
        _label(axes[i, 0], "y", labels[y], runs[y], headroom=HEADROOM)
        _label(axes[-1, i], "x", labels[y], runs[y])
    handles = [
        axes[0, -1].plot([], [], marker, color=color, ms=5, mew=0, label=setting)[0]
        for setting, color, marker in looks
    ]
    fig.legend(handles=handles, loc="outside upper left", ncols=len(settings), handletextpad=0.1)


def _settings(table: xr.Dataset) -> list[str]:
    """The setting of each run in words: "learning rate 0.1, batch size 20"."""
    columns = {WORDS.get(key, key): table[key].values for key in hyperparameters(table)}
    rows = zip(*columns.values(), strict=True)
    return [
        ", ".join(f"{k} {_short(v)}" for k, v in zip(columns, row, strict=True)) for row in rows
    ]


def _short(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _histogram(ax: Any, values: pd.Series) -> None:
    """Counts on an axis of their own: the panel's y axis belongs to its row."""
    import seaborn as sns

    counts = ax.twinx()
    sns.histplot(x=values, ax=counts, color="0.7", edgecolor="white", linewidth=0.4, bins=15)
    counts.set_axis_off()


def _label(ax: Any, axis: str, label: str, values: pd.Series, headroom: float = 0.06) -> None:
    """Limits, ticks and label of a row or a column."""
    from matplotlib.ticker import MaxNLocator

    finite = values[values.abs() < float("inf")]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 1.0)
    span = (high - low) or 1.0
    getattr(ax, f"set_{axis}lim")(low - 0.06 * span, high + headroom * span)
    getattr(ax, f"{axis}axis").set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    getattr(ax, f"set_{axis}label")(label, fontsize=8.5)
    # a fixed place: the labels of a row of panels line up, and laying them out costs nothing
    getattr(ax, f"{axis}axis").set_label_coords(*((-0.3, 0.5) if axis == "y" else (0.5, -0.2)))


def _rho(rho: float, low: float, high: float) -> str:
    if not math.isfinite(rho):
        return r"$\rho$ undefined"
    value, *ends = (f"{number:.2f}".replace("-", "−") for number in (rho, low, high))
    return rf"$\rho$ = {value}" + f"\n[{', '.join(ends)}]"
