"""beyond, Figure 6: how much each measure changes while the function stays the same.

It is drawn here, since its cells are changes in words, some of them boxed.
"""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import lettered
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond import _joint as joint
from flatlab.papers.beyond.fig4 import SMALL, colour_labels, legend_of_papers
from flatlab.papers.beyond.measures import INVARIANT

LONGER = "longer training"
BOX = "#d55e00"
LEAST, MOST = 1e-8, 1e2
"""The range of the colours; what changes less counts as unchanged."""


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """A row per measure and change: the median and the quartiles of the relative change over the
    networks, Kendall's tau between before and after, and whether the paper says that it is zero.
    """
    parts = [_rows(grid, table) for grid, table in tables.tables.items()]
    return pd.DataFrame([row for rows in parts for row in rows])


def _rows(grid: str, table: xr.Dataset) -> list[dict[str, Any]]:
    end = joint.networks(table)
    changes = {}
    if "transformation" in table.dims:
        kinds = [str(kind) for kind in table["transformation"].values if kind != "none"]
        changes = {kind: joint.networks(table, transformation=kind) for kind in kinds}
    if "fitted" in table.coords:
        changes[LONGER] = joint.networks(table, first=True)
    rows = []
    for change, other in changes.items():
        both = end.factors["run"].isin(other.factors["run"]).to_numpy()
        place = pd.Index(other.factors["run"]).get_indexer(end.factors["run"][both])
        for name in end.known(joint.PICTURED):
            one, two = end.values(name)[both], other.values(name)[place]
            start, after = (two, one) if change == LONGER else (one, two)
            relative = joint.relative_change(name, start, after)
            relative = relative[~np.isnan(relative)]
            known = np.quantile(relative, [0.25, 0.5, 0.75]) if len(relative) else [np.nan] * 3
            row = {"grid": grid, "measure": name, "change": change, "networks": len(relative)}
            row |= dict(zip(("lower_quartile", "median", "upper_quartile"), known, strict=True))
            row["kendall"] = _kept(start, after)
            kinds_claimed = INVARIANT.get(name, ())
            row["claimed"] = change in kinds_claimed or (
                change == "last-layer" and "layers" in kinds_claimed
            )
            rows.append(row)
    return rows


def _kept(before: np.ndarray, after: np.ndarray) -> float:
    """Kendall's tau between the orders of the networks before and after."""
    from flatlab.stats.ranks import Ranks

    columns = {"before": before, "after": after}
    return float(Ranks(columns, ["" for _ in before]).taus[0, 0, 1])


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per grid: measures by changes, coloured by the median relative change."""
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Patch
    from seaborn import heatmap

    if frame.empty:
        fig.text(0.5, 0.5, "no changes were measured", ha="center")
        return
    grids = [grid for grid in joint.GRIDS if grid in set(frame["grid"])]
    axes = fig.subplots(1, len(grids), sharey=True, squeeze=False)[0]
    names = [name for name in joint.PICTURED if name in set(frame["measure"])]
    for number, (grid, ax) in enumerate(zip(grids, axes, strict=True)):
        here = frame[frame["grid"] == grid]
        changes = list(dict.fromkeys(here["change"]))
        cells = here.pivot_table(index="measure", columns="change", values="median", dropna=False)
        cells = cells.reindex(names)[changes]
        heatmap(
            cells.clip(LEAST, MOST),
            annot=cells.map(in_short),  # where the median is not known, the cell stays empty
            fmt="",
            annot_kws={"fontsize": SMALL},
            norm=LogNorm(LEAST, MOST),
            cmap="cividis_r",
            linewidths=0.4,
            xticklabels=[change.replace("-", " ").replace(" ", "\n", 1) for change in changes],
            cbar=number == len(grids) - 1,
            cbar_kws={"label": "median relative change", "shrink": 0.5, "aspect": 30},
            ax=ax,
        )
        _outline(ax, here, names, changes)
        ax.set(xlabel="", ylabel="")
        ax.tick_params(length=0, labelsize=SMALL, labelrotation=0)
        counts = here.groupby("change")["networks"].max()
        rescaled = counts.drop(LONGER, errors="ignore").max()
        words = f"{counts.get(LONGER, 0)} networks"
        words += "" if np.isnan(rescaled) else f", {rescaled} rescaled"
        title = lettered("ab"[number], f"{joint.NETWORKS[grid]}: {words}")
        ax.set_title(title, loc="left", fontsize=8)
    colour_labels(axes[0], names, figure)
    box: dict[str, Any] = {"fill": False, "edgecolor": BOX, "label": "unchanged, says the paper"}
    legend_of_papers(fig, Patch(**box))


def _outline(ax: Any, rows: pd.DataFrame, names: list[str], changes: list[str]) -> None:
    """A box around what a paper says does not change."""
    from matplotlib.patches import Rectangle

    claimed = rows[rows["claimed"]]
    for name, change in zip(claimed["measure"], claimed["change"], strict=True):
        corner = (changes.index(change) + 0.04, names.index(name) + 0.08)
        ax.add_patch(Rectangle(corner, 0.92, 0.84, fill=False, edgecolor=BOX, lw=1.1))


def in_short(value: float) -> str:
    """A relative change in a few characters: "0", "3e-5", "4 %", "×12", "×1e7"."""
    if np.isnan(value):
        return "?"
    if value < LEAST:
        return "0"
    if value < 1e-3 or value >= 1e4:
        digits = f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
        return digits if value < 1 else f"×{digits}"
    return f"{100 * value:.2g} %" if value < 0.995 else f"×{1 + value:.0f}"  # not "1e+02 %"
