"""petzka2021, Figure 3: does relative flatness predict the generalization gap, by separation."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.papers.petzka2021._separations import draw_lines, summary
from flatlab.plotting.render import Settings, Tables
from flatlab.plotting.style import Look, legend, letters
from flatlab.stats.trends import pearson

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
COLUMNS = ["panel", "line", "separation", "drawn_at", "mean", "deviation", "batches"]


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """A point per row: mean, standard deviation and number of the batches' correlations."""
    table = tables["locally-constant-labels"]
    lines = [
        *(("variants", variant, PLAIN, name, "gap") for variant, (name, _) in VARIANTS.items()),
        *(("readings", "exact", reading, name, "gap") for reading, (name, _) in READINGS.items()),
        *(("risk", variant, PLAIN, VARIANTS[variant][0], "risk") for variant in OF_RISK),
    ]
    rows = []
    for panel, variant, reading, name, y in lines:
        chosen = table.sel(variant=variant)
        for at, rhos in zip(chosen["drawn_at"], of_batches(chosen, y, *reading), strict=True):
            rows.append([panel, name, at["separation"].item(), at.item(), *summary(rhos)])
    return pd.DataFrame(rows, columns=COLUMNS)


def of_batches(
    table: xr.Dataset, y: str, loss: str, normalization: str, loss_of_y: str
) -> np.ndarray:
    """Pearson's correlation of relative flatness and `y` in each batch: (separations, batches).

    loss, normalization: of relative flatness.  y: gap or risk.  A batch that a variant does not
    have, or with a value that is not finite, is NaN.
    """
    kappa = table["relative_flatness"].sel(loss=loss, normalization=normalization)
    dims = ("separation", "batch", "dataset")
    pair = [part.transpose(*dims).values for part in (kappa, table[y].sel(loss=loss_of_y))]
    *shape, datasets = pair[0].shape
    with np.errstate(invalid="ignore"):
        return pearson(*(part.reshape(-1, datasets) for part in pair)).reshape(shape)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """Three panels over class separation."""
    looks = {name: (name, look) for name, look in [*VARIANTS.values(), *READINGS.values()]}
    axes = fig.subplots(1, len(PANELS), sharey=True)
    for ax, (panel, title) in zip(axes, PANELS.items(), strict=True):
        draw_lines(ax, frame[frame["panel"] == panel], "line", looks)
        ax.set_title(title, loc="left")
    axes[0].set_ylim(-1.05, 1.05)
    axes[0].set_ylabel(r"Pearson's $\rho$")
    letters(axes)
    legend(fig, dict(looks.values()))
