"""beyond, Figure 1: where and when the inequality of linear stability holds in a VGG network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import xarray as xr

from flatlab.plotting import curves as trends
from flatlab.tables.selection import through_training

FIGURE = {
    "title": "the linear-stability inequality, layer by layer through training, VGG",
    "caption": (
        "For each layer, the mean of ||J||, its output's sensitivity to its input, over its bound "
        "C = ||W|| sqrt(mean 1/|x|^2) sqrt(S(W)) (Eq. 59 of chen2026), on fixed training samples. "
        "The theory has it at most 1 (the line) where a weight sees one position of a sample; "
        "where weights are shared it may exceed 1. In each panel: the share of samples, over all "
        "runs at the last checkpoint, for which ||J|| |x| <= ||W|| |df/dW| itself fails. Mean "
        "over seeds 0-4 of each setting, with a band of one standard deviation, no wider than the "
        "runs. Dashed vertical marks: the first checkpoint where the mean training loss is below "
        "0.01."
    ),
    "grids": ["vgg-grid"],
    "size_inches": [12.0, 9.0],
}


def frame(tables: Mapping[str, xr.Dataset], correlations: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """The ratio of every layer and setting through training, then rows `shared` (whether a
    layer's weights see several positions) and `violated` (a share of samples), in `mean`.
    """
    table = tables["vgg-grid"]
    ratio = table["mls_per_layer"] / table["layer_bound"]
    curves = trends.frame(table.assign(stability=ratio), ["stability"])
    last = through_training(table).isel(checkpoint=-1).sel(samples="train")
    violated = last["violations"].sel(norm="kernel").sum("run")
    facts = {"shared": last["shared"].max("run")}
    facts["violated"] = violated / last["samples_measured"].sum("run")
    parts = [
        pd.DataFrame({"row": row, "layer": values["layer"].values, "mean": values.values})
        for row, values in facts.items()
    ]
    return pd.concat([part for part in (curves, *parts) if len(part)], ignore_index=True)


def draw(fig: Any, frame: pd.DataFrame) -> None:
    """One panel per layer, one vertical axis for all."""
    shared, violated = (
        frame[frame["row"] == row].set_index("layer")["mean"] for row in ("shared", "violated")
    )
    panels = {
        str(layer): f"{layer}, {'weights shared' if flag else 'the theory applies'}"
        for layer, flag in shared.items()
    }
    columns = 4 if len(panels) > 6 else 3
    curves = frame[frame["row"].isin(["curve", "window"])]
    axes = trends.draw(fig, curves, panels, "layer", columns=columns, level=1, logarithmic=True)
    for ax in list(axes.values())[:1]:  # room below the curves of all panels
        ax.set_ylim(bottom=ax.get_ylim()[0] / 1.5)
    for layer, ax in axes.items():
        text = f"fails for {100 * violated[layer]:.0f} % of samples"
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # above the dashed marks
        ax.text(0.03, 0.04, text, transform=ax.transAxes, fontsize=7, bbox=box)
        if ax in fig.axes[::columns]:
            ax.set_ylabel("mean ||J|| / C")
