"""beyond, Figure 9: sharpness, compression and collapse of inner layers, across networks.

It is drawn here, since intervals of rank correlations stand beside shares of a spread.
"""

import textwrap
from typing import Any, Literal

import numpy as np
import pandas as pd

from flatlab.lab.figures import style
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import KINDS, ORDERED, Look, legend, letters
from flatlab.lab.tables.eligibility import FEWEST_FOR_RANKS
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond import _bottleneck as bottleneck
from flatlab.papers.beyond._bottleneck import GRID, BottleneckNetworks
from flatlab.papers.beyond._joint import ALL, SEEDS
from flatlab.stats.ranks import Ranks

LAYERS = {"[1]": "input of layer 2", "[2]": "input of layer 3", "[-1]": "penultimate"}
"""Whose input a representation is."""
SHARPNESS = "root_sharpness"
GROUPS = {
    "sharpness and compression": [
        *((SHARPNESS, f"feature_sensitivity{layer}", name) for layer, name in LAYERS.items()),
        (SHARPNESS, "g", "outputs"),
    ],
    "sharpness and normalized MLS": [
        (SHARPNESS, f"normalized_feature_mls{layer}", name) for layer, name in LAYERS.items()
    ],
    "normalized MLS and collapse": [
        (f"normalized_feature_mls{layer}", f"collapse_within{layer}", name)
        for layer, name in LAYERS.items()
    ],
    "sharpness and collapse": [
        (SHARPNESS, f"collapse_within{layer}", name) for layer, name in LAYERS.items()
    ],
    "representativeness by folds and held out": [
        ("representativeness_by_folds[-1, 0]", "representativeness[-1, 0]", "penultimate")
    ],
}
"""Pairs of quantities, each with the representation that it is about."""
ESTIMANDS: dict[str, Literal["pooled", "within"]] = {ALL: "pooled", SEEDS: "within"}
SHARE = "linear_share_within"
LOWEST = -0.6
"""The lower end of the axis of shares; a lower one is an arrow."""
LOOKS = {"cross-entropy": Look(ORDERED[0], "o"), "half-mse": Look(ORDERED[2], "s", "--")}
COLUMNS = [
    *("panel", "group", "layer", "kind", "x", "y"),
    *("units", "loss", "value", "low", "high", "networks"),
]


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """Rows `tau`: Kendall's tau with its 95 % interval over networks that interpolate. Rows
    `share`: the median and the quartiles over those of one width and loss.
    """
    networks = bottleneck.networks(tables.table(GRID)).that_interpolate()
    if networks.count < FEWEST_FOR_RANKS:
        return pd.DataFrame(columns=COLUMNS)
    rows = [*_taus(networks), *_shares(networks)]
    return pd.DataFrame(rows, columns=COLUMNS)


def _taus(networks: BottleneckNetworks) -> list[dict[str, Any]]:
    pairs = [(group, *pair) for group, each in GROUPS.items() for pair in each]
    names = dict.fromkeys(name for _, x, y, _ in pairs for name in (x, y))
    columns = {name: networks.values(name) for name in names}
    settings = [str(setting) for setting in networks.data["setting"].values]
    rows = []
    for estimand, kind in ESTIMANDS.items():
        ranks = Ranks(columns, settings, networks.pairs(estimand))
        for group, x, y, layer in pairs:
            tau = ranks.tau(x, y)
            low, high = tau.interval()
            about = {"panel": "tau", "group": group, "layer": layer, "kind": kind, "x": x, "y": y}
            numbers = {"value": tau.value, "low": low, "high": high, "networks": tau.n}
            rows.append({**about, **numbers})
    return rows


def _shares(networks: BottleneckNetworks) -> list[dict[str, Any]]:
    rows = []
    for (units, loss), chosen in networks.by("units", "loss").items():
        for layer, name in LAYERS.items():
            values = chosen.values(f"{SHARE}{layer}")
            known = values[np.isfinite(values)]
            if not len(known):
                continue
            low, median, high = np.quantile(known, [0.25, 0.5, 0.75])
            about = {"panel": "share", "layer": name, "units": units, "loss": loss}
            numbers = {"value": median, "low": low, "high": high, "networks": len(known)}
            rows.append({**about, **numbers})
    return rows


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """Correlations on the left, on the right shares through the layers."""
    if frame.empty:
        fig.text(0.5, 0.5, "too few networks interpolate", ha="center")
        return
    left, right = fig.subfigures(1, 2, width_ratios=(1.2, 1))
    axes, taus = [each.subplots() for each in (left, right)], frame[frame["panel"] == "tau"]
    _intervals(axes[0], taus)
    _lines(axes[1], frame[frame["panel"] == "share"])
    letters(axes)
    looks_of = {bottleneck.ESTIMANDS[ALL]: KINDS["pooled"][1], **dict([KINDS["within"]])}
    legend(left, looks_of)
    legend(right, {bottleneck.LOSSES[loss]: look for loss, look in LOOKS.items()})


def _intervals(ax: Any, taus: pd.DataFrame) -> None:
    """A line per pair, with a heading above each group."""
    places, labels, y = [], [], 0.0
    for group, pairs in GROUPS.items():
        places.append(y)
        labels.append(textwrap.fill(group, 21))
        y -= 1
        for _, _, layer in pairs:
            here = taus[(taus["group"] == group) & (taus["layer"] == layer)]
            for kind, shift in zip(ESTIMANDS.values(), (0.15, -0.15), strict=True):
                row = here[here["kind"] == kind]
                style.interval(
                    ax, row["value"], row["low"], row["high"], [y + shift], KINDS[kind][1]
                )
            places.append(y)
            labels.append(layer)
            y -= 1
        y -= 0.3
    ax.set_yticks(places, labels, fontsize=6.5)
    for label in ax.get_yticklabels():
        label.set_weight("bold" if "\n" in label.get_text() else "normal")  # a heading
    style.from_minus_one_to_one(ax, r"Kendall's $\tau$, 95 % interval")
    ax.set_ylim(y + 0.8, 0.8)
    ax.set_title(f"across {taus['networks'].max()} networks", loc="left")


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
