"""chen2026, Figure 5: normalized MLS against elementwise-adaptive sharpness of vision networks.

It is drawn here, since points have errors in both directions, and families have names beside the
panel, with lines to their centres.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.lab.figures.labels import title_of, two_digits
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import lettered, plain_numbers, span
from flatlab.lab.tables.networks import ResultTables
from flatlab.stats.correlation import Correlations

PANELS = {"normalized": ("normalized_mls", "adaptive_sharpness"), "plain": ("mls", "sharpness")}
"""Abscissa and ordinate, by panel."""

ACCURACIES = ("train_accuracy", "test_accuracy", "sample_accuracy")
"""In the rows of networks, in %; networks trained elsewhere have only the last one."""

KINDS = {
    "pooled": r"$\rho$ =",
    "ranks": "of ranks",
    "within": "same family",
    "between": "between families",
}
BARS = 1.96
"""How many standard errors bars are long, to each side: they are 95 % intervals."""


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """Rows `run`: a network in a panel.  Rows of `KINDS`: a correlation with its interval.

    Networks whose sharpness is not positive have no logarithm and are in neither; `left_out`
    counts them and those that were dropped or failed.
    """
    ((_, networks),) = tables.items()
    chosen, parts = networks.data, []
    for panel, (x, y) in PANELS.items():
        shown = chosen.sel(run=(chosen[y] > 0).values)
        head = {"panel": panel, "left_out": len(networks.chosen) - shown.sizes["run"]}
        columns = {"name": "run", **{name: name for name in ("family", *ACCURACIES)}}
        columns |= {"x_value": x, "x_error": f"{x}_error", "y_value": y, "y_error": f"{y}_error"}
        runs = {column: shown[name].values for column, name in columns.items()}
        parts.append(pd.DataFrame({**head, "row": "run", **runs}))
        parts.append(pd.DataFrame([{**head, **row} for row in _correlations(shown, x, y)]))
    return pd.concat(parts, ignore_index=True)


def _correlations(shown: xr.Dataset, x: str, y: str) -> Iterator[dict[str, Any]]:
    points = pd.DataFrame({"x": shown[x].values, "y": np.log(shown[y].values)})
    families = [str(name) for name in shown["family"].values]
    values, ranks = (
        Correlations({name: part[name].to_numpy() for name in "xy"}, families, clusters=families)
        for part in (points, points.rank())
    )
    rhos = {kind: values.rho("x", "y", kind) for kind in ("pooled", "within", "between")}
    for kind, rho in {**rhos, "ranks": ranks.rho("x", "y")}.items():
        yield {"row": kind} | dict(zip(("rho", "low", "high"), rho.numbers, strict=False))


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """Two panels with pale points, and the medians of families with their names beside them."""
    for ax, (panel, (x, y)) in zip(fig.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        here = frame[frame["panel"] == panel].set_index("row")
        runs = here.loc[["run"]]
        ax.set(xscale="log", yscale="log", xlabel=title_of(figure, x), ylabel=title_of(figure, y))
        errors = (BARS * runs[f"{axis}_error"] for axis in ("y", "x"))
        bars = {"fmt": "o", "color": "0.72", "ms": 2, "elinewidth": 0.4}
        ax.errorbar(runs["x_value"], runs["y_value"], *errors, **bars)
        span(ax, runs["y_value"], factor=1.3)
        lowest = ax.get_ylim()[0]
        cut = runs[runs["y_value"] - BARS * runs["y_error"] < lowest]
        ax.plot(cut["x_value"], [lowest] * len(cut), color="0.72", marker=7, ms=4, ls="")
        _name(ax, runs.groupby("family")[["x_value", "y_value"]].median().sort_values("y_value"))
        plain_numbers(ax)
        ax.grid(alpha=0.25, lw=0.4)
        ax.set_title(lettered([*PANELS].index(panel), _summary(here)), loc="left")


def _name(ax: Any, centres: pd.DataFrame) -> None:
    """Names in a column, near the heights of their centres and apart, with lines to these."""
    steps = 0.045 * np.arange(len(centres))
    heights = ax.transAxes.inverted().transform(ax.transData.transform(centres.to_numpy()))[:, 1]
    upwards = np.maximum.accumulate(heights - steps)
    downwards = np.minimum.accumulate((heights - steps)[::-1])[::-1]
    line: dict[str, Any] = {"arrowstyle": "-", "lw": 0.4, "color": "0.4", "relpos": (0, 0.5)}
    line |= {"shrinkA": 1, "shrinkB": 0}
    place: dict[str, Any] = {"textcoords": "axes fraction", "va": "center", "fontsize": 6}
    for family, height in zip(centres.index, (upwards + downwards) / 2 + steps, strict=True):
        ax.annotate(family, centres.loc[family], (1.04, height), arrowprops=line, **place)
    ax.plot(centres["x_value"], centres["y_value"], "o", color="#0173b2", ms=3.5, mew=0)


def _summary(here: pd.DataFrame) -> str:
    """The number of networks and the correlations of a panel, in three lines."""
    words, numbers = [], here[["rho", "low", "high"]]
    for kind, word in KINDS.items():
        rho, *ends = map(two_digits, numbers.loc[kind].to_numpy(dtype=float))
        words.append(f"{word} {rho} [{', '.join(ends)}]")
    count, left_out = (here.index == "run").sum(), int(here["left_out"].iloc[0])
    shown = f"{count} networks" + f" ({left_out} left out)" * bool(left_out)
    return f"{shown}; {words[0]}\n" + "\n".join(words[1:])
