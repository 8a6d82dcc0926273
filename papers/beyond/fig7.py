"""beyond, Figure 7: compression of each layer through training, by width and loss.

It is drawn here, since its lines are the layers of networks, of which each column has others.
"""

from itertools import product
from typing import Any

import pandas as pd

from flatlab.lab.figures import curves as template
from flatlab.lab.figures.curves import draw_panels, spread
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import ORDERED, Look, mark_clipped
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond import _bottleneck as bottleneck
from flatlab.papers.beyond._bottleneck import GRID

COLUMNS = {
    "4 units": {"units": 4, "loss": "cross-entropy"},
    "4 units, half-MSE, 4 classes": {"units": 4, "loss": "half-mse"},
    "128 units": {"units": 128, "loss": "cross-entropy"},
}
"""Which networks the panels of a column show."""
RATE = 0.05
MEASURES = {
    "feature_mls": "MLS (layer input/input)",
    "normalized_feature_mls": "MLS · |x|/|z| (no unit)",
    "feature_dimension": "local dimension (no unit)",
    "collapse_within": "collapse NC1 (no unit)",
}
"""A row of panels each."""
AT_THE_OUTPUT = {"feature_mls": "mls", "feature_dimension": "local_dimension"}
"""What geometry calls it; it normalizes the MLS in another way."""
OUTPUT = "output"
LINES = {
    "fc2": ("input of layer 2", Look(ORDERED[0], "o")),
    "fc3": ("input of layer 3", Look(ORDERED[1], "s")),
    "fc4": ("penultimate features", Look(ORDERED[2], "D")),
    OUTPUT: ("outputs", Look(ORDERED[3], "^")),
}
"""Label and look of the representations; the input of layer 1 is x itself."""


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """The columns of `spread`, and `networks`, of each entry of `COLUMNS`.

    layer: whose input a representation is, or "output"; a quantity there has the name that it has
        at the inner layers.
    """
    networks = bottleneck.networks(tables.table(GRID))
    names = {output: name for name, output in AT_THE_OUTPUT.items()}
    parts = []
    for title, which in COLUMNS.items():
        chosen = networks.where(**which, lr=RATE)
        if not chosen.count:
            continue
        inner = spread(chosen, [*MEASURES]).assign(networks=title)
        inner = inner[(inner["row"] == "window") | inner["layer"].isin([*LINES])]
        outputs = spread(chosen, [*names], marks=False).assign(networks=title, layer=OUTPUT)
        parts += [inner, outputs.assign(quantity=outputs["quantity"].map(names))]
    columns = [*template.COLUMNS, "networks"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per measure and column, a line per layer."""
    if frame.empty:
        fig.text(0.5, 0.5, "no such networks", ha="center")
        return
    columns = [title for title in COLUMNS if title in set(frame["networks"])]
    places = [*product(MEASURES, columns)]
    panels = {f"{name} {title}": title for name, title in places}
    curves = frame[frame["row"] == "curve"]
    curves = curves.assign(panel=curves["quantity"] + " " + curves["networks"])
    options: dict[str, Any] = {"line": "layer", "columns": len(columns), "logarithmic": panels}
    options |= {"looks": {key: look for key, (_, look) in LINES.items()}, "shared": "row"}
    options["names"] = {key: label for key, (label, _) in LINES.items()}
    axes = draw_panels(fig, curves, panels, "panel", **options)
    mark_clipped(axes.values())
    begins = frame[frame["row"] == "window"].groupby("networks")["iteration"].min()
    for (name, title), ax in zip(places, axes.values(), strict=True):
        if title == columns[0]:
            ax.set_ylabel(MEASURES[name])
        if title in begins:
            ax.axvline(begins[title], color="0.4", lw=0.8, ls=(0, (3, 1.5)), zorder=0.5)
