"""beyond, Figure 7: compression of each layer through training, by the width of the bottleneck.

It is drawn here, since its lines are the layers of the networks and its columns their widths.
"""

from itertools import product
from typing import Any

import pandas as pd

from flatlab.papers.beyond._bottleneck import GRID, with_units
from flatlab.plotting.frames.training import COLUMNS, spread
from flatlab.plotting.lines import draw_panels
from flatlab.plotting.render import Settings, Tables
from flatlab.plotting.style import ORDERED, Look
from flatlab.tables.selection import of_settings

WIDTHS = (4, 10, 128)
"""Units of the last hidden layer, a column of panels each."""
SHOWN = {"loss": "cross-entropy", "lr": 0.05}
MEASURES = {
    "normalized_feature_mls": "normalized MLS",
    "feature_dimension": "local dimension",
    "collapse_within": "collapse (NC1)",
}
AT_THE_OUTPUT = {"normalized_feature_mls": "normalized_mls", "feature_dimension": "local_dimension"}
OUTPUT = "output"
LINES = {
    "fc2": ("input of layer 2", ORDERED[0], "o"),
    "fc3": ("input of layer 3", ORDERED[1], "s"),
    "fc4": ("penultimate features", ORDERED[2], "D"),
    OUTPUT: ("outputs", ORDERED[3], "^"),
}
"""Label, colour and marker of the representations; the input of layer 1 is x itself."""


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """The columns of `spread`, and `units`, of the networks of `SHOWN` and `WIDTHS`.

    layer: whose input a representation is, or "output"; a quantity there has the name that it has
        at the inner layers.
    """
    table = with_units(tables[GRID])
    parts = []
    for units in WIDTHS:
        chosen = of_settings(table, {**SHOWN, "units": units})
        if not chosen.sizes["run"]:
            continue
        inner = spread(chosen, [*MEASURES]).assign(units=units)
        inner = inner[(inner["row"] == "window") | inner["layer"].isin([*LINES])]
        names = {output: name for name, output in AT_THE_OUTPUT.items()}
        outputs = spread(chosen, [*names], marks=False).assign(units=units, layer=OUTPUT)
        parts += [inner, outputs.assign(quantity=outputs["quantity"].map(names))]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per measure and width, a line per layer."""
    if frame.empty:
        fig.text(0.5, 0.5, "no such networks", ha="center")
        return
    widths = [units for units in WIDTHS if units in set(frame["units"])]
    keys = [f"{name} {units}" for name, units in product(MEASURES, widths)]
    panels = {
        key: f"{units} units" if row == 0 else ""
        for row, name in enumerate(MEASURES)
        for units, key in zip(widths, (f"{name} {units}" for units in widths), strict=True)
    }
    curves = frame[frame["row"] == "curve"]
    curves = curves.assign(panel=curves["quantity"] + " " + curves["units"].astype(str))
    options: dict[str, Any] = {"line": "layer", "columns": len(widths), "logarithmic": keys}
    options["looks"] = {key: Look(color, marker) for key, (_, color, marker) in LINES.items()}
    options["names"] = {key: label for key, (label, *_) in LINES.items()}
    axes = draw_panels(fig, curves, panels, "panel", **options)
    begins = frame[frame["row"] == "window"].groupby("units")["iteration"].min()
    for (name, units), ax in zip(product(MEASURES, widths), axes.values(), strict=True):
        if units == widths[0]:
            ax.set_ylabel(MEASURES[name])
        if units in begins:
            ax.axvline(begins[units], color="0.4", lw=0.8, ls=(0, (3, 1.5)), zorder=0.5)
