"""beyond, Figure 6: how much each measure changes while the function stays the same.

It is drawn here, since its cells are changes, some of which break a promise.
"""

from collections.abc import Iterator
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
from flatlab.stats.ranks import Ranks

LONGER = "longer training"
LEAST, KEPT = 1e-8, 0.01
"""What changes less is unchanged; from the second on a promise of no change is broken."""
SHADES = ["white", "0.93", "0.8"]
"""Of what is unchanged, changes by less than twofold, and changes by more."""


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """A row per measure and change: the median and the quartiles of the relative change over the
    networks, Kendall's tau between before and after, and whether the paper says that it is zero.
    """
    return pd.DataFrame(
        [row for grid, table in tables.tables.items() for row in _rows(grid, table)]
    )


def _rows(grid: str, table: xr.Dataset) -> Iterator[dict[str, Any]]:
    end = joint.networks(table)
    changes = {}
    if "transformation" in table.dims:
        kinds = [str(kind) for kind in table["transformation"].values if kind != "none"]
        changes = {kind: joint.networks(table, transformation=kind) for kind in kinds}
    if "fitted" in table.coords:
        changes[LONGER] = joint.networks(table, first=True)
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
            ranks = Ranks({"before": start, "after": after}, [""] * len(start))
            row["kendall"] = float(ranks.taus[0, 0, 1])
            yield row | {
                "claimed": change.replace("last-layer", "layers") in INVARIANT.get(name, ())
            }


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per grid, measures by changes; bold: promised to be none; red: broken."""
    from seaborn import heatmap

    if frame.empty:
        fig.text(0.5, 0.5, "no changes were measured", ha="center")
        return
    grids = [grid for grid in joint.GRIDS if grid in set(frame["grid"])]
    axes = fig.subplots(1, len(grids), sharey=True, squeeze=False)[0]
    names = [name for name in joint.PICTURED if name in set(frame["measure"])]
    for number, (grid, ax) in enumerate(zip(grids, axes, strict=True)):
        here = frame[(frame["grid"] == grid) & frame["median"].notna()]
        changes = list(dict.fromkeys(here["change"]))
        medians, claimed = (
            here.pivot_table(of, "measure", "change").reindex(index=names, columns=changes)
            for of in ("median", "claimed")
        )
        sizes = (medians >= LEAST).astype(int) + (medians >= 1)
        options = {"annot": medians.map(in_short), "fmt": "", "annot_kws": {"fontsize": SMALL}}
        heatmap(sizes, cmap=SHADES, vmin=0, vmax=2, cbar=False, linewidths=0.5, ax=ax, **options)
        told = claimed.eq(1).to_numpy()
        broken = told & (medians >= KEPT).to_numpy()
        for text, bold, red in zip(ax.texts, told.flat, broken.flat, strict=True):
            text.set(weight="bold" if bold else "normal", color="#d00000" if red else "0.1")
        titles = [change.replace("-", " ").replace(" ", "\n", 1) for change in changes]
        ax.set_xticks(np.arange(len(titles)) + 0.5, titles, rotation=0)
        ax.set(xlabel="", ylabel="")
        ax.tick_params(length=0, labelsize=SMALL)
        counts = here.groupby("change")["networks"].max()
        rescaled = counts.drop(LONGER, errors="ignore").max()
        words = f"{counts.get(LONGER, 0)} networks"
        words += "" if np.isnan(rescaled) else f", {rescaled} rescaled"
        ax.set_title(lettered(number, f"{joint.NETWORKS[grid]}: {words}"), loc="left")
    colour_labels(axes[0], names, figure)
    legend_of_papers(fig)


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
