"""petzka2021, Figure 4: the approximated generalization bound beside the generalization gap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.plotting.style import Look

QUANTITIES = {
    "bound": ("approximated bound", Look("#0173b2", "o")),
    "representativeness": ("of it representativeness", Look("#7fb9da", "s")),
    "gap": ("generalization gap", Look("#d55e00", "^")),
}
PANELS = {"paper": "as the paper says", "code": "the authors' code"}


def frame(
    figure: Mapping[str, Any],
    tables: Mapping[str, xr.Dataset],
    correlations: Mapping[str, xr.Dataset],
) -> pd.DataFrame:
    """A point per row: mean and standard deviation over the samples, and how many they are."""
    table = tables["representativeness"].mean("fold")
    rows = []
    for variant in table["variant"].values:
        for name in QUANTITIES:
            for point in table[name].sel(variant=variant).transpose("separation", "repeat"):
                values = point.values[np.isfinite(point.values)]
                deviation = values.std(ddof=1) if len(values) > 1 else np.nan
                separation = float(point["separation"])
                rows.append([variant, name, separation, values.mean(), deviation, len(values)])
    return pd.DataFrame(
        rows, columns=["variant", "quantity", "separation", "mean", "deviation", "samples"]
    )


def draw(fig: Any, frame: pd.DataFrame, figure: Mapping[str, Any]) -> None:
    """A panel per variant; class separation is not to scale."""
    variants = list(dict.fromkeys(frame["variant"]))
    axes = fig.subplots(1, len(variants), squeeze=False)[0]
    for ax, variant in zip(axes, variants, strict=True):
        here = frame[frame["variant"] == variant]
        separations = list(dict.fromkeys(here["separation"]))
        for number, (name, (label, look)) in enumerate(QUANTITIES.items()):
            points = here[here["quantity"] == name]
            x = np.arange(len(separations)) + 0.12 * (number - 1)
            ends = [points["mean"] - points["deviation"], points["mean"] + points["deviation"]]
            ax.plot(
                *(x, points["mean"], look.dash),
                **{"color": look.color, "marker": look.marker, "ms": 5, "lw": 0.8, "label": label},
            )
            ax.vlines(x, *ends, color=look.color, lw=0.8)
        ax.axhline(0, color="0.6", lw=0.7, zorder=0.5)
        ax.set_xticks(range(len(separations)), [f"{c:g}" for c in separations])
        ax.set_xlabel("class separation")
        ax.set_title(PANELS[variant], loc="left")
        ax.grid(axis="y", lw=0.3, color="0.85")
    axes[0].set_ylabel("loss")
    axes[-1].legend(loc="upper right")
