"""beyond, Figure 16: sharpness and sensitivity with and without a scale of the logits."""

from typing import Any

import pandas as pd

from flatlab.lab.figures.points import forest
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import Look, legend, letters
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond.claims_logits import FACTORS, GIVEN, GRIDS, LOSSES, taus

LOOKS = {
    "f": Look("#0173b2", "o", ""),
    "f / sd f": Look("#de8f05", "D", ""),
    "softmax f": Look("#cc78bc", "s", ""),
    GIVEN: Look("0.35", "^", ""),
}
"""What the root of sharpness and MLS are of."""
COLUMNS = ["networks", "factor", "loss", "outputs", "tau", "low", "high", "count"]


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """A correlation of one grid, factor, loss and map of the outputs per row."""
    rows = [
        [name, words, loss, outputs, *tau.numbers]
        for grid, name in GRIDS.items()
        for factor, words in FACTORS.items()
        for loss in LOSSES
        for outputs, tau in taus(tables[grid], loss, factor, fewest=2).items()
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per grid and factor, with the losses below each other; those that were trained."""
    losses = frame.groupby(["networks", "factor", "loss"])["tau"]
    panels = frame[losses.transform("count") > 0].groupby(["networks", "factor"], sort=False)
    axes = fig.subplots(1, len(panels))
    for ax, ((name, factor), rows) in zip(axes, panels, strict=True):
        by_loss = {
            str(loss): [
                (LOOKS[str(row.outputs)], (row.tau, row.low, row.high)) for row in part.itertuples()
            ]
            for loss, part in rows.groupby("loss", sort=False)
        }
        forest(ax, by_loss, r"$\tau$ of $\sqrt{S}$ and MLS")
        ax.set_title(f"{name}, {factor}", loc="left")
    letters(list(axes))
    legend(fig, LOOKS)
