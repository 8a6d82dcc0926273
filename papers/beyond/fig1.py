"""beyond, Figure 1: where and when the inequality of linear stability holds in a VGG network.

It is drawn here, since its panels are the layers of the network, each with a share of samples.
"""

from typing import Any

import pandas as pd
import xarray as xr

from flatlab.lab.figures.curves import draw_panels, spread
from flatlab.lab.figures.render import Settings
from flatlab.lab.tables.networks import ResultTables
from flatlab.lab.tables.selection import through_training


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """The ratio of every layer and setting through training, then rows `shared` (whether a
    layer's weights see several positions) and `violated` (a share of samples), in `mean`.
    """
    table = tables.table("vgg-grid")
    ratio = table["mls_per_layer"] / table["layer_bound"]
    networks = tables["vgg-grid"].with_table(xr.Dataset.assign, {"stability": ratio})
    curves = spread(networks, ["stability"])
    last = through_training(table).isel(checkpoint=-1).sel(samples="train")
    violated = last["violations"].sel(norm="kernel").sum("run")
    share = violated / last["samples_measured"].sum("run")
    parts = [curves]
    for row, values in {"shared": last["shared"].max("run"), "violated": share}.items():
        content = {"row": row, "layer": values["layer"].values, "mean": values.values}
        parts.append(pd.DataFrame(content))
    return pd.concat([part for part in parts if len(part)], ignore_index=True)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """One panel per layer, all with the same vertical axis."""
    shared, violated = (
        frame[frame["row"] == row].set_index("layer")["mean"] for row in ("shared", "violated")
    )
    panels = {
        str(layer): f"{layer}, {'weights shared' if flag else 'the theory applies'}"
        for layer, flag in shared.items()
    }
    columns = 4 if len(panels) > 6 else 3
    curves = frame[frame["row"].isin(["curve", "window"])]
    options: dict[str, Any] = {"columns": columns, "logarithmic": panels, "shared": True}
    axes = draw_panels(fig, curves, panels, "layer", **options)
    for ax in list(axes.values())[:1]:  # room below the curves of all panels
        ax.set_ylim(bottom=ax.get_ylim()[0] / 1.5)
    for layer, ax in axes.items():
        ax.axhline(1, color="0.2", lw=0.7, zorder=0.6)
        text = f"fails for {100 * violated[layer]:.0f} % of samples"
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # above the dashed marks
        ax.text(0.03, 0.04, text, transform=ax.transAxes, fontsize=6, bbox=box)
        if ax in fig.axes[::columns]:
            ax.set_ylabel(r"mean $\|J\|$ / $C$")
