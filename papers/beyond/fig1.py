"""beyond, Figure 1: where and when the inequality of linear stability holds in a VGG network.

It is drawn here, since its bars are layers by norms. Its supplement has a panel for each layer.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.lab.figures.curves import draw_panels, spread
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import COLORS, mark_clipped
from flatlab.lab.tables.networks import ResultTables
from flatlab.lab.tables.selection import through_training

NORMS = {
    "kernel": ("largest singular value of the kernel's matrix", "mean"),
    "operator": ("norm of the convolution", "operator"),
    "frobenius": ("the authors' norm", "frobenius"),
}
"""What the norms of a layer's weights are called, and the columns with their shares."""
SHARED = {True: "weights shared", False: "the theory applies"}


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """The ratio of every layer and setting through training, then rows `shared` (whether a
    layer's weights see several positions) and `violated` (shares of samples by norm).
    """
    table = tables.table("vgg-grid")
    ratio = table["mls_per_layer"] / table["layer_bound"]
    networks = tables["vgg-grid"].with_table(xr.Dataset.assign, {"stability": ratio})
    curves = spread(networks, ["stability"])
    last = through_training(table).isel(checkpoint=-1).sel(samples="train")
    shares = last["violations"].sum("run", min_count=1) / last["samples_measured"].sum("run")
    by_norm = {column: shares.sel(norm=norm).values for norm, (_, column) in NORMS.items()}
    layers = {"layer": last["layer"].values}
    shared = pd.DataFrame({"row": "shared", **layers, "mean": last["shared"].max("run").values})
    parts = [curves, shared, pd.DataFrame({"row": "violated", **layers, **by_norm})]
    return pd.concat([part for part in parts if len(part)], ignore_index=True)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """Bars: for how many samples the inequality fails at the end, by layer and norm."""
    rows = frame[frame["row"] == "violated"]
    shared = frame[frame["row"] == "shared"].set_index("layer")["mean"]
    ax, width = fig.subplots(), 0.8 / len(NORMS)
    for place, (label, column) in enumerate(NORMS.values()):
        x = np.arange(len(rows)) + width * (place - (len(NORMS) - 1) / 2)
        shares = 100 * rows[column]
        bars = ax.bar(x, shares, width, label=label, color=COLORS[place])
        known = ["?" if np.isnan(share) else f"{round(share, 1):g}" for share in shares]
        ax.bar_label(bars, known, padding=1, fontsize=6)
    names = [f"{name}\n{SHARED[bool(shared[name])]}" for name in rows["layer"]]
    ax.set_xticks(range(len(rows)), names)
    ax.set(ylim=(0, 108), ylabel="fails for samples (%)")
    ax.set_title("the inequality of linear stability, at the end of training", loc="left")
    title = "norm of the weights of a layer"
    fig.legend(title=title, loc="outside upper left", ncols=len(NORMS), alignment="left")


def supplement(figure: Settings) -> tuple[Callable[..., None], tuple[float, float]]:
    """What draws the second page, and its size."""
    return draw_curves, (7.1, 5.2)


def draw_curves(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """One panel per layer, all with the same vertical axis."""
    shared = frame[frame["row"] == "shared"].set_index("layer")["mean"]
    panels = {str(layer): f"{layer}, {SHARED[bool(flag)]}" for layer, flag in shared.items()}
    columns = 4 if len(panels) > 6 else 3
    curves = frame[frame["row"].isin(["curve", "window"])]
    axes = draw_panels(
        fig, curves, panels, "layer", columns=columns, logarithmic=panels, shared=True
    )
    mark_clipped(axes.values())
    for ax in axes.values():
        ax.axhline(1, color="0.2", lw=0.7, zorder=0.6)
        if ax in fig.axes[::columns]:
            ax.set_ylabel(r"mean $\|J\|$ / $C$ (no unit)")
