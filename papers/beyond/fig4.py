"""beyond, Figure 4: which measures of five papers order the same networks in the same way.

Measures that order networks alike over all of them are a block. The picture has one measure of each
block, its supplement the matrix of all of them.

Figures 5 and 6 have its colours of the papers, too.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.figures.labels import in_lines, label_of, two_digits
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

SMALL, BLOCKS = 6, 6
"""The smallest print, in points; and the number of blocks, as the effective rank is 5 to 6."""


def colour_labels(ax: Any, names: list[str], figure: Settings) -> None:
    """Name the measures at the vertical axis, each in the colour of its paper."""
    ax.set_yticklabels([label_of(figure, name) for name in names], fontsize=SMALL)
    for label, name in zip(ax.get_yticklabels(), names, strict=True):
        label.set_color(COLORS[joint.PICTURED[name]])


def legend_of_papers(fig: Any, *others: Any) -> None:
    """A line above all panels: the colours of the papers, then other handles."""
    from matplotlib.patches import Patch

    handles = [Patch(color=color, label=PAPERS[key]) for key, color in COLORS.items()]
    place = {"loc": "outside upper left", "ncols": 5, "fontsize": SMALL, "handlelength": 1}
    fig.legend(handles=[*handles, *others], **place)


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
        missing = np.array([(~np.isfinite(chosen.values(name))).sum() for name in names])
        y, x = np.tril_indices(len(names), -1)
        for kind in (joint.ALL, joint.SEEDS):
            content = {"grid": grid, "kind": kind, "networks": chosen.count}
            content |= {"x": np.array(names)[x], "y": np.array(names)[y]}
            matrices = chosen.drawn_ranks(kind, names).matrix(tail)
            content |= {n: m[y, x] for n, m in zip(("tau", "low", "high"), matrices, strict=True)}
            content |= {"missing_x": missing[x], "missing_y": missing[y]}
            parts.append(pd.DataFrame({**content, "dropped": chosen.dropped}))
    return pd.concat(parts, ignore_index=True)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per grid with the medoids of the blocks, and the measures of each block."""
    shown = _pictured(frame)
    if not shown:
        fig.text(0.5, 0.5, "no networks that fit", ha="center")
        return
    blocks = _blocks(pd.concat(shown.values()))
    labels = {name: f"{label_of(figure, name)}  {n}" for n, name in enumerate(blocks, 1)}
    above, below = fig.subfigures(2, 1, height_ratios=(1.9, 1))
    axes = above.subplots(1, len(shown), squeeze=False)[0]
    for place, ((grid, here), ax) in enumerate(zip(shown.items(), axes, strict=True)):
        networks = f"{joint.NETWORKS[grid]}: {here['networks'].iloc[0]} networks"
        rows = here[here["x"].isin(labels) & here["y"].isin(labels)]
        _matrix(ax, rows, labels if place == 0 else dict.fromkeys(labels, ""), printed=True)
        ax.set_xticks(np.arange(len(labels)) + 0.5, [str(n + 1) for n in range(len(labels))])
        ax.set_xlabel("below: all networks; above: same setting; white: undecided")
        ax.set_title(lettered(place, networks), loc="left")
    legend_of_papers(above)
    lines = []
    for number, (medoid, members) in enumerate(blocks.items(), 1):
        others = [label_of(figure, name) for name in members if name != medoid]
        told = f"{number}  {label_of(figure, medoid)}: {', '.join(others) or 'no other'}"
        lines.append(in_lines(told, 140).replace("\n", "\n    "))
    below.text(0.01, 0.98, "\n".join(lines), va="top", fontsize=SMALL, linespacing=1.5)


def _pictured(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of the measures that are shown, by grid."""
    shown = frame[frame["x"].isin(joint.PICTURED) & frame["y"].isin(joint.PICTURED)]
    parts = {grid: shown[shown["grid"] == grid] for grid in joint.GRIDS}
    return {grid: rows for grid, rows in parts.items() if len(rows)}


def _blocks(rows: pd.DataFrame) -> dict[str, list[str]]:
    """The measures of each block by the one that is closest to the others, in the tree's order."""
    from scipy.cluster.hierarchy import fcluster

    tree, names, distance = _clusters(rows)
    numbers = pd.Series(fcluster(tree, BLOCKS, "maxclust"), distance.index)[names]
    blocks = [[*part.index] for _, part in numbers.groupby(numbers, sort=False)]
    return {str(distance.loc[block, block].sum().idxmin()): block for block in blocks}


def supplement(figure: Settings) -> tuple[Callable[..., None], tuple[float, float]]:
    """What draws the second page, and its size."""
    return draw_all, (7.1, 9.7)


def draw_all(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per grid, both with the measures in the order of the clusters over all networks."""
    from matplotlib.patches import Patch

    shown = _pictured(frame)
    names = _clusters(pd.concat(shown.values()))[1] if shown else []
    labels = {name: f"{label_of(figure, name)}  {n}" for n, name in enumerate(names, 1)}
    axes = fig.subplots(max(len(shown), 1), 1, squeeze=False)[:, 0]
    for place, ((grid, here), ax) in enumerate(zip(shown.items(), axes, strict=False)):
        _matrix(ax, here, labels)
        ax.set_xticks(np.arange(0, len(labels), 2) + 0.5, range(1, len(labels) + 1, 2))
        ax.tick_params(axis="x", pad=2)
        networks = f"{joint.NETWORKS[grid]}: {here['networks'].iloc[0]} networks"
        ax.set_title(lettered(place, networks), loc="left")
        if not place:
            bar = fig.colorbar(ax.collections[0], ax=axes, shrink=0.3, aspect=30, pad=0.01)
            bar.set_label(r"Kendall's $\tau$", fontsize=7)
            bar.ax.tick_params(labelsize=SMALL)
    legend_of_papers(fig, Patch(facecolor="white", edgecolor="0.4", label="undecided"))


def _clusters(rows: pd.DataFrame) -> tuple[np.ndarray, list[str], pd.DataFrame]:
    """Average linkage by 1 - |tau|, mean of the grids, the measures in its order, the distances."""
    from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    taus = rows[rows["kind"] == joint.ALL].pivot_table("tau", "x", "y").abs()
    drawn = {*rows["x"], *rows["y"]}
    names = [name for name in joint.PICTURED if name in drawn]
    above = taus.reindex(index=names, columns=names).fillna(0)
    distance = (1 - above - above.T).clip(lower=0)
    condensed = squareform(distance.to_numpy(), checks=False)
    tree = optimal_leaf_ordering(linkage(condensed, "average"), condensed)
    return tree, [names[leaf] for leaf in leaves_list(tree)], distance


def _matrix(ax: Any, rows: pd.DataFrame, names: Mapping[str, str], printed: bool = False) -> None:
    """Over all networks below the diagonal, within settings above it; white where undecided.

    names: the measures in order, with their labels.  printed: whether cells have their numbers.
    """
    from seaborn import heatmap

    place = {name: number for number, name in enumerate(names)}
    taus = np.full((len(names), len(names)), np.nan)
    filled = (rows["networks"] >= FEWEST_FOR_RANKS) & (rows["low"] * rows["high"] > 0)
    for kind, x, y, tau in rows.loc[filled, ["kind", "x", "y", "tau"]].itertuples(index=False):
        first, second = sorted((place[x], place[y]))
        taus[(second, first) if kind == joint.ALL else (first, second)] = tau
    words = [["" if np.isnan(tau) else two_digits(tau) for tau in row] for row in taus]
    numbers = {"annot": words if printed else None, "fmt": "", "annot_kws": {"fontsize": SMALL}}
    options = {"xticklabels": False, "yticklabels": False, "cbar": False, **numbers}
    heatmap(taus, vmin=-1, vmax=1, cmap="RdBu_r", ax=ax, rasterized=not printed, **options)
    ax.plot([0, len(names)], [0, len(names)], color="0.6", lw=0.6)
    ax.spines[:].set(visible=True, color="0.6")
    ax.tick_params(length=0, labelsize=SMALL, pad=11)
    ax.set_yticks(np.arange(len(names)) + 0.5, [*names.values()])
    colors, width = [COLORS[joint.PICTURED[name]] for name in names], len(names) / 60
    places, strip = np.arange(len(names)) + 0.5, {"height": 1, "left": -1.7 * width}
    ax.barh(places, width, color=colors, edgecolor="none", clip_on=False, **strip)
