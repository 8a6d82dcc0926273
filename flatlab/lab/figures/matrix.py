"""Template `Matrix`: every quantity against every other at the end of training.

The picture shows a few pairs and all correlations one below the other; the matrix is a supplement.
Without such pairs it is the picture.

seaborn's PairGrid would create a figure of its own and takes several times as long.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.figures import labels, style
from flatlab.lab.figures.points import OfSettings, Panel, draw_panels
from flatlab.lab.figures.render import Settings
from flatlab.lab.tables.networks import BESIDE, ResultTables

MATRICES = ("rho", "low", "high")


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """Rows `run`: setting, hyper-parameters and quantities of a network.  Rows `rho`, `low` and
    `high`: the correlation matrix and the ends of its intervals.  Rows of `BESIDE`: the
    correlations within settings and adjusted for the training loss.
    """
    ((key, networks),) = tables.items()
    names = figure["quantities"]
    if figure["seeds"]:
        networks = networks.where(seed=list(figure["seeds"]))
    data, values = networks.data, {name: networks.values(name) for name in names}
    if figure["seeds"]:
        known = networks.correlation_matrices(names)
    else:
        known = tables.correlations(key, names).sel(x=names, y=names)
    matrices = [known[name].sel(kind="pooled").values for name in MATRICES]
    matrices += [known["rho"].sel(kind=kind).values for kind in BESIDE]
    head = {"row": "run", "name": data["run"].values, "setting": labels.in_words(data)}
    parts = [pd.DataFrame({**head, **values})]
    for kind, matrix in zip((*MATRICES, *BESIDE), matrices, strict=True):
        columns = dict(zip(names, matrix.T, strict=True))
        parts.append(pd.DataFrame({"row": kind, "name": names, **columns}))
    return pd.concat(parts, ignore_index=True)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """The pairs above a forest of all correlations: over all networks, and of the same setting."""
    if not figure["pairs"]:
        return draw_matrix(fig, frame, figure)
    above, below = fig.subfigures(2, 1, height_ratios=(1, 1.7))
    runs, decided = frame[frame["row"] == "run"], {*map(frozenset, figure["framed"])}
    rows = frame[frame["row"] != "run"].set_index(["row", "name"])
    label = {name: labels.title_of(figure, name) for name in figure["quantities"]}
    panels = []
    for x, y in figure["pairs"]:
        points, numbers = runs.rename(columns={x: "x", y: "y"}), rows.xs(x, level="name")[y]
        others = {"same setting": [numbers["within"]]}
        panels.append(Panel(points, (label[x], label[y]), numbers, "rho", others))
    draw_panels(above, panels, OfSettings(runs), len(panels))
    pairs = [*itertools.combinations(figure["quantities"], 2)]
    half = -(-len(pairs) // 2)
    heads = (style.lettered(len(figure["pairs"]), "correlations of all pairs"), "continued")
    for ax, part, head in zip(
        below.subplots(1, 2), (pairs[:half], pairs[half:]), heads, strict=True
    ):
        _forest(ax, part, rows, figure, decided)
        ax.set_title(head, loc="left")
    (name, look), same_setting, _ = style.KINDS.values()
    style.legend(below, {f"{name}, 95 % interval": look, **dict([same_setting])})


def _forest(ax: Any, pairs: Any, rows: pd.DataFrame, figure: Settings, decided: Any) -> None:
    """A line for each pair; those that decide a claim are bold."""
    places = -np.arange(len(pairs))
    for (_, look), columns in zip(style.KINDS.values(), (MATRICES, ["within"] * 3), strict=False):
        value, low, high = ([float(rows[y][column, x]) for x, y in pairs] for column in columns)
        style.interval(ax, value, low, high, places, look)  # "within" has no interval
    style.from_minus_one_to_one(ax, r"Pearson's $\rho$")
    names = [" · ".join(labels.label_of(figure, name) for name in pair) for pair in pairs]
    ax.set_yticks(places, names)
    for text, pair in zip(ax.get_yticklabels(), pairs, strict=True):
        text.set_weight("bold" if frozenset(pair) in decided else "normal")
    ax.set_ylim(places[-1] - 0.7, 0.7)


def supplement(figure: Settings) -> tuple[Callable[..., None], tuple[float, float]] | None:
    """What draws the second page, and its size."""
    return (draw_matrix, figure["size_inches"]) if figure["pairs"] else None


def draw_matrix(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """Scatter plots below the diagonal, histograms on it, correlations above it.

    A cell above the diagonal has the colour of the correlation over all networks, which it prints
    with its interval, and below it that within settings: in italics if it has the other sign.
    """
    names = figure["quantities"]
    runs = frame[frame["row"] == "run"]
    rows = (*MATRICES, *BESIDE)
    matrices = {kind: frame[frame["row"] == kind].set_index("name")[names] for kind in rows}
    axes = fig.subplots(len(names), len(names), squeeze=False, gridspec_kw={"wspace": 0.05})
    fig.get_layout_engine().set(w_pad=0.01, h_pad=0.01, hspace=0.02, wspace=0.02)
    few: dict[str, Any] = {"nbins": 2, "steps": [1, 2, 5, 10]}
    for (i, j), ax in np.ndenumerate(axes):
        x, y = names[j], names[i]
        ax.tick_params(width=0.4, length=1.5, pad=1)
        ax.xaxis.set_visible(i == len(names) - 1)  # ticks at the margins only, since they take
        ax.yaxis.set_visible(j == 0 and i > 0)  # more time than all points
        if i == j:
            _histogram(ax, runs, x)
        elif i < j:
            _correlation(ax, {kind: float(matrix[x][y]) for kind, matrix in matrices.items()})
            if {x, y} in map(set, figure["framed"]):
                ax.spines[:].set(linewidth=1.6, color="0.1", zorder=5)
        else:
            style.points_of_settings(ax, runs, x, y, size=2)
            ax.locator_params("y", **few)
        if i >= j:
            ax.locator_params("x", **few)
            ax.xaxis.set_major_formatter("{x:g}")
    for i, name in enumerate(names):
        # at a fixed distance, so that the labels line up
        label = labels.in_lines(labels.label_of(figure, name))
        axes[i, 0].set_ylabel(label)
        axes[i, 0].yaxis.set_label_coords(-0.42, 0.5)
        axes[-1, i].set_xlabel(label)
        axes[-1, i].xaxis.set_label_coords(0.5, -0.3)
    axes[0, 0].yaxis.set_visible(True)
    axes[0, 0].set_yticks([])
    style.legend_of_settings(fig, runs["setting"])
    key = (
        "over all networks, the 95 % interval, and of the same setting; a frame: it decides a claim"
    )
    fig.supxlabel(rf"Above the diagonal: Pearson's $\rho$ {key}", fontsize=6.5)


def _correlation(ax: Any, numbers: dict[str, float]) -> None:
    """Printed in a cell of its colour; "hardly varies" where it is not defined."""
    import matplotlib as mpl

    ax.xaxis.set_visible(False)
    ax.yaxis.set_visible(False)
    rho, low, high = (numbers[kind] for kind in MATRICES)
    place: dict[str, Any] = {"transform": ax.transAxes, "ha": "center", "va": "center"}
    if np.isnan(rho):
        ax.set_facecolor("0.93")
        ax.text(0.5, 0.5, "undefined", color="0.4", fontsize=6, **place)
        return
    ax.set_facecolor(mpl.colormaps["RdBu_r"](0.5 + 0.3 * rho))  # light enough for black letters
    ends = "no interval" if np.isnan(low) else ", ".join(map(labels.two_digits, (low, high)))
    ax.text(0.5, 0.73, labels.two_digits(rho), fontsize=8, weight="bold", **place)
    ax.text(0.5, 0.47, ends, fontsize=6, **place)
    within = numbers["within"]
    slant = "italic" if within * rho < 0 else "normal"
    ax.text(0.5, 0.21, labels.two_digits(within), fontsize=6, color="0.3", style=slant, **place)


def _histogram(ax: Any, runs: pd.DataFrame, name: str) -> None:
    """Counts by setting, one above the other."""
    ax.set_yticks([])
    values = runs[name]
    finite = runs[np.isfinite(values)]
    if finite.empty:
        return
    looks = style.look_of_settings(finite["setting"])
    parts = [finite.loc[finite["setting"] == setting, name] for setting in looks]
    bins = min(15, round(1.5 * len(finite) ** 0.5))  # 7 for 20 networks, 15 for 100
    options = {"stacked": True, "edgecolor": "white", "linewidth": 0.3}
    counts, *_ = ax.hist(parts, bins, color=[look.color for look in looks.values()], **options)
    ax.set_ylim(0, 1.3 * np.max(counts))
