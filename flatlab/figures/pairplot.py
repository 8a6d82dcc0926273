"""Pair plots: every quantity against every other, one point per network.

Used by the figures of chen2026 and chen2024 that correlate quantities at the end of training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import xarray as xr

from flatlab.tables.selection import end_of_training, columns_of

HEADROOM = 0.5
"""Share of a panel's data range that is added above it, for the correlation."""


def frame(table: xr.Dataset, correlations: xr.Dataset, labels: Mapping[str, str]) -> pd.DataFrame:
    """What a pair plot shows: rows `run` with the quantities of each network, then the rows `rho`,
    `low` and `high` of the correlation matrix, one per quantity. Columns are the quantities.
    """
    chosen = end_of_training(table)
    names = list(labels)
    head = {"row": "run", "name": chosen["run"].values, "setting": chosen["setting"].values}
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
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    names = list(labels)
    runs = frame[frame["row"] == "run"]
    matrices = {
        kind: frame[frame["row"] == kind].set_index("name")[names] for kind in ("rho", "low", "high")
    }
    settings = list(dict.fromkeys(runs["setting"]))
    colors = dict(zip(settings, sns.color_palette("colorblind", len(settings)), strict=True))
    markers = dict(zip(settings, "osD^vP*X<>" * (1 + len(settings) // 10), strict=False))
    axes = fig.subplots(len(names), len(names), sharex="col", squeeze=False)
    for i, y in enumerate(names):
        for j, x in enumerate(names):
            ax = axes[i, j]
            if i == j:
                sns.histplot(x=runs[x], ax=ax, color="0.7", edgecolor="white", linewidth=0.4, bins=15)
                ax.tick_params(left=False, labelleft=False)
            else:
                sns.scatterplot(
                    x=runs[x],
                    y=runs[y],
                    hue=runs["setting"],
                    style=runs["setting"],
                    palette=colors,
                    markers=markers,
                    s=9,
                    linewidth=0.2,
                    alpha=0.85,
                    legend=False,
                    ax=ax,
                )
                low, high = runs[y].min(), runs[y].max()
                span = (high - low) or 1.0
                ax.set_ylim(low - 0.08 * span, high + HEADROOM * span)
                rho, *interval = (matrices[kind].loc[y, x] for kind in ("rho", "low", "high"))
                ax.text(0.04, 0.96, _rho(rho, *interval), transform=ax.transAxes, va="top", fontsize=6)
                ax.tick_params(labelleft=j == 0 or (i == 0 and j == 1))
            ax.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
            ax.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
            ax.tick_params(width=0.5, length=2, pad=1)
            ax.set_xlabel(labels[x] if i == len(names) - 1 else "", fontsize=8)
            ax.set_ylabel(labels[y] if j == 0 else "", fontsize=8)
    fig.align_labels()
    handles = [
        Line2D([], [], color=colors[s], marker=markers[s], linestyle="", markersize=4, label=s)
        for s in settings
    ]
    fig.legend(handles=handles, loc="outside upper right", ncols=len(settings), fontsize=8)


def _rho(rho: float, low: float, high: float) -> str:
    if rho != rho:
        return r"$\rho$ undefined"
    sign = "−" if rho < 0 else ""
    ends = ", ".join(f"{end:.2f}".replace("-", "−") for end in (low, high))
    return rf"$\rho$ = {sign}{abs(rho):.2f}" + f"\n[{ends}]"
