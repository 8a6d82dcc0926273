"""beyond, Figure 6: how much each measure changes while the function stays the same.

It is drawn here, since its cells are symbols of changes, some of them boxed.
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
BROKEN = "#d00000"
LEAST, KEPT = 1e-8, 0.01
"""What changes less is unchanged; from the second on a promise of no change is broken."""
SYMBOLS: dict[str, tuple[float, float, tuple[dict[str, Any], bool]]] = {
    "unchanged": (0.0, LEAST, ({"marker": ".", "ms": 2}, True)),
    "less than twofold": (LEAST, 1.0, ({"marker": "o", "ms": 4}, False)),
    "more": (1.0, np.inf, ({"marker": "o", "ms": 5}, True)),
}
"""From which median relative change on and up to which, and its symbol, filled or not."""


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
    """A panel per grid: measures by changes, with a symbol for how much; red breaks a promise."""
    if frame.empty:
        fig.text(0.5, 0.5, "no changes were measured", ha="center")
        return
    grids = [grid for grid in joint.GRIDS if grid in set(frame["grid"])]
    axes = fig.subplots(1, len(grids), sharey=True, squeeze=False)[0]
    names = [name for name in joint.PICTURED if name in set(frame["measure"])]
    for number, (grid, ax) in enumerate(zip(grids, axes, strict=True)):
        here = frame[(frame["grid"] == grid) & frame["median"].notna()]
        changes = list(dict.fromkeys(here["change"]))
        broken = here["claimed"] & (here["median"] >= KEPT)
        for words, (least, most, look) in SYMBOLS.items():
            some = here["median"].between(least, most, inclusive="left")
            parts = ((some & ~broken, "0.25", words), (some & broken, BROKEN, "and is not"))
            for part, color, label in parts:
                rows = here[part]
                x, y = rows["change"].map(changes.index), rows["measure"].map(names.index)
                fill = {"mec": color, "mfc": color if look[1] else "white", "label": label}
                ax.plot(x, y, ls="", mew=1, **fill, **look[0])
        claimed = here[here["claimed"]]
        x, y = claimed["change"].map(changes.index), claimed["measure"].map(names.index)
        box: dict[str, Any] = {"marker": "s", "ms": 8.5, "mfc": "none", "mec": "0.75", "mew": 0.6}
        ax.plot(x, y, ls="", zorder=0.5, label="unchanged, says the paper", **box)
        names_of = [change.replace("-", " ").replace(" ", "\n", 1) for change in changes]
        ax.set_xticks(range(len(changes)), names_of)
        ax.set(xlim=(-0.6, len(changes) - 0.4), ylim=(len(names) - 0.4, -0.6))
        ax.set_yticks(range(len(names)))
        ax.tick_params(length=0, labelsize=SMALL)
        ax.grid(axis="y", lw=0.2, color="0.9")
        counts = here.groupby("change")["networks"].max()
        rescaled = counts.drop(LONGER, errors="ignore").max()
        words = f"{counts.get(LONGER, 0)} networks"
        words += "" if np.isnan(rescaled) else f", {rescaled} rescaled"
        ax.set_title(lettered(number, f"{joint.NETWORKS[grid]}: {words}"), loc="left")
    colour_labels(axes[0], names, figure)
    known = dict(zip(*axes[-1].get_legend_handles_labels()[::-1], strict=True))
    known["and is not"] = known.pop("and is not")  # after what it is about
    legend_of_papers(fig, *known.values())


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
