"""beyond, Figure 4: which measures of five papers order the same networks in the same way.

It is drawn here, since its matrix stands below a tree and has two halves with a colour per paper.

Figures 5 and 6 have its colours of the papers, too.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.figures.labels import label_of
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import lettered
from flatlab.lab.tables.eligibility import FEWEST_FOR_RANKS
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond import _joint as joint
from flatlab.papers.beyond.measures import PAPERS
from flatlab.stats.ranks import simultaneous

COLORS = {
    "chen": "#0173b2",
    "macdonald": "#de8f05",
    "petzka": "#029e73",
    "andriushchenko": "#cc78bc",
    "jiang": "#949494",
}
"""By paper, in seaborn's colour-blind palette."""

SMALL = 6
"""The smallest print, in points."""


def colour_labels(ax: Any, names: list[str], figure: Settings) -> None:
    """Name the measures at the vertical axis, each in the colour of its paper."""
    ax.set_yticklabels([label_of(figure, name) for name in names], fontsize=SMALL)
    for label, name in zip(ax.get_yticklabels(), names, strict=True):
        label.set_color(COLORS[joint.PICTURED[name].paper])


def legend_of_papers(fig: Any, *others: Any) -> None:
    """A line above all panels: the colours of the papers, then other handles."""
    from matplotlib.patches import Patch

    handles = [Patch(color=color, label=PAPERS[key]) for key, color in COLORS.items()]
    place = {"loc": "outside upper left", "ncols": 5, "fontsize": SMALL, "handlelength": 1}
    fig.legend(handles=[*handles, *others], **place)


KINDS = (joint.ALL, joint.SEEDS)


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """Kendall's tau of two measures per row, over all networks and within settings, with the ends
    of the simultaneous interval; `networks` fit, `missing` have no finite value of x.
    """
    parts = []
    for grid, table in tables.tables.items():
        chosen = joint.networks(table)
        names = chosen.known([*joint.PICTURED, *joint.FURTHER])
        shown = sum(name in joint.PICTURED for name in names)
        tail = simultaneous(max(1, shown * (shown - 1)))  # each pair of measures, for both kinds
        missing = [int((~np.isfinite(chosen.values(name))).sum()) for name in names]
        for kind in KINDS:
            x, y = np.meshgrid(np.arange(len(names)), np.arange(len(names)))
            below = x < y
            content = {"x": np.array(names)[x[below]], "y": np.array(names)[y[below]]}
            ranks = chosen.drawn_ranks(kind, names)
            for name, matrix in zip(("tau", "low", "high"), ranks.matrix(tail), strict=True):
                content[name] = matrix[below]
            content["missing_x"] = np.array(missing)[x[below]]
            content["missing_y"] = np.array(missing)[y[below]]
            about = {"grid": grid, "kind": kind, "networks": chosen.count}
            parts.append(pd.DataFrame({**about, **content, "dropped": chosen.dropped}))
    return pd.concat(parts, ignore_index=True)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per grid, both with the measures in the order of the clusters over all networks."""
    from matplotlib.patches import Patch

    shown = frame[frame["x"].isin(joint.PICTURED) & frame["y"].isin(joint.PICTURED)]
    grids = [grid for grid in joint.GRIDS if grid in set(shown["grid"])]
    if not grids:
        fig.text(0.5, 0.5, "no networks that fit", ha="center")
        return
    tree, names = _clusters(shown[shown["kind"] == joint.ALL])
    labels = {name: label_of(figure, name) for name in names}
    rows = fig.subplots(1 + len(grids), 1, height_ratios=[0.08, *[1] * len(grids)])
    _dendrogram(rows[0], tree)
    for place, (grid, ax) in enumerate(zip(grids, rows[1:], strict=True)):
        here = shown[shown["grid"] == grid]
        _matrix(ax, here, labels, last=place == len(grids) - 1)
        ax.set_title(lettered("ab"[place], _heading(grid, here)), loc="left", fontsize=8)
    image = rows[-1].collections[0]
    bar = fig.colorbar(image, ax=rows[1:], shrink=0.3, aspect=30, pad=0.01)
    bar.set_label(r"Kendall's $\tau$", fontsize=7)
    bar.ax.tick_params(labelsize=SMALL)
    legend_of_papers(
        fig, Patch(facecolor="white", edgecolor="0.4", hatch="////", label="undecided")
    )


def _heading(grid: str, rows: pd.DataFrame) -> str:
    fit, dropped = rows["networks"].iloc[0], rows["dropped"].iloc[0]
    missing = dict(zip(rows["x"], rows["missing_x"], strict=True))
    missing |= dict(zip(rows["y"], rows["missing_y"], strict=True))
    some = [count for count in missing.values() if count]
    counted = f"{fit} of {fit + dropped} networks fit" if dropped else f"{fit} networks"
    words = f"{joint.NETWORKS[grid]}: {counted}"
    least = f"{min(some)}-{max(some)}" if len({*some}) > 1 else f"{some[0] if some else 0}"
    return words + (
        f"; {len(some)} of {len(missing)} measures missing in {least} of them" if some else ""
    )


def _clusters(rows: pd.DataFrame) -> tuple[np.ndarray, list[str]]:
    """Average linkage by 1 - |tau|, mean of the grids, and the measures in its order."""
    from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    taus = rows.groupby(["x", "y"])["tau"].mean().abs().fillna(0)
    drawn = {*rows["x"], *rows["y"]}
    names = [name for name in joint.PICTURED if name in drawn]
    distance = pd.DataFrame(1.0, index=names, columns=names)
    for (x, y), tau in zip(taus.index.to_list(), taus, strict=True):
        distance.loc[x, y] = distance.loc[y, x] = max(0.0, 1 - tau)
    condensed = squareform(distance.to_numpy(), checks=False)
    tree = optimal_leaf_ordering(linkage(condensed, "average"), condensed)
    return tree, [names[leaf] for leaf in leaves_list(tree)]


def _dendrogram(ax: Any, tree: np.ndarray) -> None:
    from scipy.cluster.hierarchy import dendrogram

    dendrogram(tree, ax=ax, no_labels=True, color_threshold=0, above_threshold_color="0.4")
    for line in ax.collections:
        line.set_linewidth(0.6)
    ax.set_axis_off()


def _matrix(ax: Any, rows: pd.DataFrame, names: Mapping[str, str], last: bool) -> None:
    """Over all networks below the diagonal, within settings above it; hatched where undecided.

    names: the measures in order, with their labels.  last: whether they stand below it, too.
    """
    from seaborn import heatmap

    place = {name: number for number, name in enumerate(names)}
    taus = np.full((len(names), len(names)), np.nan)
    decided = np.zeros_like(taus, dtype=bool)
    filled = (rows["networks"] >= FEWEST_FOR_RANKS) & (rows["low"] * rows["high"] > 0)
    for kind, x, y, tau, sure in zip(
        *(rows[name] for name in ("kind", "x", "y", "tau")), filled, strict=True
    ):
        first, second = sorted((place[x], place[y]))
        cell = (second, first) if kind == joint.ALL else (first, second)
        taus[cell], decided[cell] = tau, sure
    labels = [*names.values()]
    options = {"xticklabels": labels if last else False, "yticklabels": False, "cbar": False}
    heatmap(np.nan_to_num(taus), vmin=-1, vmax=1, cmap="RdBu_r", ax=ax, rasterized=True, **options)
    _hatch(ax, ~decided & ~np.eye(len(names), dtype=bool))
    ax.tick_params(length=0, labelsize=SMALL, pad=7)
    # every other label at the right, where rows are closer than lines of print
    right = ax.secondary_yaxis("right")
    for side, start in ((ax, 0), (right, 1)):
        side.set_yticks(np.arange(start, len(names), 2) + 0.5, labels[start::2])
    right.tick_params(length=0, labelsize=SMALL, pad=2)
    right.spines["right"].set_visible(False)
    for number, name in enumerate(names):
        _strip(ax, number, COLORS[joint.PICTURED[name].paper], len(names) if last else None)


def _strip(ax: Any, number: int, color: str, bottom: int | None) -> None:
    """The colour of a measure's paper, at the left and, where the labels are, below."""
    from matplotlib.patches import Rectangle

    style: dict[str, Any] = {"facecolor": color, "edgecolor": "none", "clip_on": False}
    ax.add_patch(Rectangle((-0.7, number), 0.5, 1, **style))
    if bottom is not None:
        ax.add_patch(Rectangle((number, bottom + 0.3), 1, 0.7, **style))


def _hatch(ax: Any, cells: np.ndarray) -> None:
    """A stroke through each of these cells: a hatch of matplotlib's is wider than a cell."""
    from matplotlib.collections import LineCollection

    strokes = [((x, y + 1), (x + 1, y)) for y, x in np.argwhere(cells)]
    ax.add_collection(LineCollection(strokes, colors="0.35", linewidths=0.4), autolim=False)
