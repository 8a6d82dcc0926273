"""petzka2021, Figure 4: the approximated generalization bound beside the generalization gap."""

from typing import Any

import pandas as pd

from flatlab.papers.petzka2021._separations import draw_lines, summary
from flatlab.plotting.render import Settings, Tables
from flatlab.plotting.style import Look, legend, letters

QUANTITIES = {
    "bound": ("approximated bound", Look("#0173b2", "o")),
    "representativeness": ("representativeness, a part of it", Look("#7fb9da", "s")),
    "gap": ("generalization gap", Look("#d55e00", "^")),
}
PANELS = {"paper": "as the paper says", "code": "the authors' code"}
COLUMNS = ["variant", "quantity", "separation", "mean", "deviation", "samples"]


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """A point per row: mean and standard deviation over the samples, and their number."""
    table = tables["representativeness"].mean("fold")
    rows = [
        [variant, name, point["separation"].item(), *summary(point.values)]
        for variant in table["variant"].values
        for name in QUANTITIES
        for point in table[name].sel(variant=variant).transpose("separation", "repeat")
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per variant over class separation."""
    variants = frame["variant"].unique()
    axes = fig.subplots(1, len(variants), squeeze=False)[0]
    for ax, variant in zip(axes, variants, strict=True):
        draw_lines(ax, frame[frame["variant"] == variant], "quantity", QUANTITIES)
        ax.set_title(PANELS[variant], loc="left")
    axes[0].set_ylabel("loss")
    letters(axes)
    legend(fig, dict(QUANTITIES.values()))
