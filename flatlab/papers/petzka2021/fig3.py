"""petzka2021, Figure 3: does relative flatness tell the generalization gap, by class separation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.papers.petzka2021._batches import of_batches
from flatlab.plotting.style import Look

PLAIN = ("squared", "none", "squared")
VARIANTS = {
    "exact": ("features as drawn", Look("#222222", "o")),
    "inverted": ("features through the inverted network", Look("#0173b2", "s")),
    "reversed": ("features as drawn, separations reversed", Look("#949494", "v", "--")),
    "code": ("the authors' code, separations reversed", Look("#d55e00", "D", "--")),
}
READINGS = {
    PLAIN: ("squared loss, as it is", Look("#222222", "o")),
    ("squared", "deviation", "squared"): ("over standard deviation", Look("#029e73", "s")),
    ("squared", "variance", "squared"): ("over variance (Thm. 4)", Look("#cc78bc", "D")),
    ("cross-entropy", "none", "cross-entropy"): ("cross-entropy", Look("#de8f05", "^")),
    ("squared", "none", "zero-one"): ("gap in zero-one loss", Look("#56b4e9", "v")),
}
"""Loss and normalization of relative flatness, loss of the gap."""

OF_RISK = ("exact", "inverted")
PANELS = {
    "variants": "κ and the generalization gap",
    "readings": "the same, features as drawn",
    "risk": "κ and the risk on test samples",
}


def frame(
    figure: Mapping[str, Any],
    tables: Mapping[str, xr.Dataset],
    correlations: Mapping[str, xr.Dataset],
) -> pd.DataFrame:
    """A point per row: mean, standard deviation and number of the batches' correlations."""
    table = tables["locally-constant-labels"]
    lines = [("variants", variant, PLAIN, name, "gap") for variant, (name, _) in VARIANTS.items()]
    lines += [
        ("readings", "exact", reading, name, "gap") for reading, (name, _) in READINGS.items()
    ]
    lines += [("risk", variant, PLAIN, VARIANTS[variant][0], "risk") for variant in OF_RISK]
    rows = []
    for panel, variant, (loss, normalization, of_gap), name, y in lines:
        flatness = {"loss": loss, "normalization": normalization}
        for point in of_batches(table, y, variant, flatness, of_gap).transpose("separation", ...):
            here = point["separation"]
            drawn_at = table["drawn_at"].sel(variant=variant, separation=here)
            rho = point.values[np.isfinite(point.values)]
            deviation = rho.std(ddof=1) if len(rho) > 1 else np.nan
            mean = rho.mean() if len(rho) else np.nan
            rows.append([panel, name, float(here), float(drawn_at), mean, deviation, len(rho)])
    return pd.DataFrame(
        rows, columns=["panel", "line", "separation", "drawn_at", "mean", "deviation", "batches"]
    )


def draw(fig: Any, frame: pd.DataFrame, figure: Mapping[str, Any]) -> None:
    """Three panels over class separation, which is not to scale."""
    looks = {name: look for name, look in [*VARIANTS.values(), *READINGS.values()]}
    axes = fig.subplots(1, len(PANELS), sharey=True)
    for ax, (panel, title) in zip(axes, PANELS.items(), strict=True):
        here = frame[frame["panel"] == panel]
        separations = list(dict.fromkeys(here["separation"]))
        lines = list(dict.fromkeys(here["line"]))
        for number, line in enumerate(lines):
            points, look = here[here["line"] == line], looks[line]
            shift = 0.1 * (number - (len(lines) - 1) / 2)
            x = np.arange(len(separations)) + shift
            ax.plot(x, points["mean"], look.dash, color=look.color, lw=1, marker=look.marker, ms=4)
            bars = np.isfinite(points["deviation"].values)
            ends = [points["mean"] - points["deviation"], points["mean"] + points["deviation"]]
            ax.vlines(x[bars], *(end[bars] for end in ends), color=look.color, lw=0.8)
            ax.plot([], [], look.dash, color=look.color, lw=1, marker=look.marker, ms=4, label=line)
        ax.axhline(0, color="0.6", lw=0.7, zorder=0.5)
        ax.set_xticks(range(len(separations)), [f"{c:g}" for c in separations])
        ax.set_xlabel("class separation")
        ax.set_title(title, loc="left")
        ax.grid(axis="y", lw=0.3, color="0.85")
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.08), fontsize=7)
    axes[0].set_ylim(-1.05, 1.05)
    axes[0].set_ylabel(r"Pearson's $\rho$")
