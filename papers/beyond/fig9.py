"""beyond, Figure 9: sharpness, compression and collapse of inner layers, across networks.

It is drawn here, since intervals of rank correlations stand beside shares of a spread.
"""

from typing import Any, Literal

import numpy as np
import pandas as pd

from flatlab.lab.figures import style
from flatlab.lab.figures.points import forest
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import KINDS, ORDERED, Look, legend, letters
from flatlab.lab.tables.eligibility import FEWEST_FOR_RANKS
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond import _bottleneck as bottleneck
from flatlab.papers.beyond._bottleneck import GRID, NUMBERS, quartiles
from flatlab.papers.beyond._joint import ALL, SEEDS
from flatlab.stats.ranks import Ranks

LAYERS = {"[1]": "input of layer 2", "[2]": "input of layer 3", "[-1]": "penultimate"}
"""Whose input a representation is."""
S, MLS, COLLAPSE = "root_sharpness", "normalized_feature_mls{}", "collapse_within{}"
GROUPS = {
    "sharpness and compression": (S, "feature_sensitivity{}"),
    "sharpness and normalized MLS": (S, MLS),
    "normalized MLS and collapse": (MLS, COLLAPSE),
    "sharpness and collapse": (S, COLLAPSE),
}
PAIRS = [
    (group, name, x.format(layer), y.format(layer))
    for group, (x, y) in GROUPS.items()
    for layer, name in LAYERS.items()
]
PAIRS.insert(len(LAYERS), ("sharpness and compression", "outputs", S, "g"))
BY_FOLDS, HELD_OUT = "representativeness_by_folds[-1, 0]", "representativeness[-1, 0]"
PAIRS.append(("representativeness by folds and held out", "penultimate", BY_FOLDS, HELD_OUT))
"""Groups of pairs of quantities, the representation that each is about, and the pair."""
ESTIMANDS: dict[str, Literal["pooled", "within"]] = {ALL: "pooled", SEEDS: "within"}
LOWEST = -0.6
"""The lower end of the axis of shares; a lower one is an arrow."""
LOOKS = {"cross-entropy": Look(ORDERED[0], "o"), "half-mse": Look(ORDERED[2], "s", "--")}
COLUMNS = ["panel", "group", "layer", "kind", "x", "y", "units", "loss", *NUMBERS]


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """Rows `tau`: Kendall's tau with its 95 % interval over networks that interpolate. Rows
    `share`: the median and the quartiles over those of one width and loss.
    """
    networks = bottleneck.networks(tables.table(GRID)).that_interpolate()
    if networks.count < FEWEST_FOR_RANKS:
        return pd.DataFrame(columns=COLUMNS)
    names = dict.fromkeys(name for *_, x, y in PAIRS for name in (x, y))
    columns = {name: networks.values(name) for name in names}
    settings = [str(setting) for setting in networks.data["setting"].values]
    rows = []
    for estimand, kind in ESTIMANDS.items():
        ranks = Ranks(columns, settings, networks.pairs(estimand))
        for group, layer, x, y in PAIRS:
            row = ["tau", group, layer, kind, x, y, np.nan, np.nan, *ranks.tau(x, y).numbers]
            rows.append(row)
    for (units, loss), chosen in networks.by("units", "loss").items():
        for layer, name in LAYERS.items():
            numbers = quartiles(chosen.values(f"linear_share_within{layer}"))
            if numbers[-1]:
                rows.append(["share", np.nan, name, *[np.nan] * 3, units, loss, *numbers])
    return pd.DataFrame(rows, columns=COLUMNS)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """Correlations on the left, on the right shares through the layers."""
    if frame.empty:
        fig.text(0.5, 0.5, "too few networks interpolate", ha="center")
        return
    left, right = fig.subfigures(1, 2, width_ratios=(1.2, 1))
    axes, taus = [each.subplots() for each in (left, right)], frame[frame["panel"] == "tau"]
    looks = [KINDS[kind][1] for kind in ESTIMANDS.values()]
    rows = {
        f"{group}, {layer}": [*zip(looks, here[NUMBERS[:3]].to_numpy(), strict=True)]
        for (group, layer), here in taus.groupby(["group", "layer"], sort=False)
    }
    forest(axes[0], rows, r"Kendall's $\tau$, 95 % interval")
    axes[0].set_title(f"across {taus['networks'].max()} networks", loc="left")
    _lines(axes[1], frame[frame["panel"] == "share"])
    letters(axes)
    legend(left, dict(zip((bottleneck.ESTIMANDS[ALL], KINDS["within"][0]), looks, strict=True)))
    legend(right, {bottleneck.LOSSES[loss]: look for loss, look in LOOKS.items()})


def _lines(ax: Any, shares: pd.DataFrame) -> None:
    """For each loss the median over the widths, in a band of all their quartiles."""
    for loss, look in LOOKS.items():
        by_layer = shares[shares["loss"] == loss].groupby("layer")[["value", "low", "high"]]
        ends = by_layer.agg({"value": "median", "low": "min", "high": "max"})
        ends = ends.reindex([*LAYERS.values()]).clip(lower=1.01 * LOWEST)
        x = np.arange(len(ends))
        ax.fill_between(x, ends["low"], ends["high"], color=look.color, alpha=0.2, lw=0)
        ax.plot(x, ends["value"], ms=3, **look.options)
    ax.axhline(0, color="0.6", lw=0.7, zorder=0.5)
    ax.set_xticks(x, [*LAYERS.values()])
    ax.set(xlim=(-0.2, x[-1] + 0.2), ylim=(LOWEST, 0.8))
    ax.set(xlabel="representation", ylabel="share of the spread within a class (no unit)")
    ax.grid(axis="y", lw=0.3, color="0.85")
    ax.set_title("explained by a linear map: median, quartiles", loc="left")
    style.mark_clipped([ax])
