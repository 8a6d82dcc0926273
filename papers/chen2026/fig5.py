"""chen2026, Figure 5: normalized MLS against elementwise-adaptive sharpness of vision networks.

It is drawn here, since points have errors in both directions, families have names at their centres,
and four kinds of correlation stand below.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.lab.figures.labels import title_of
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import correlation, letters, plain_numbers
from flatlab.lab.tables.networks import ResultTables
from flatlab.stats.correlation import Correlations

PANELS = {"normalized": ("normalized_mls", "adaptive_sharpness"), "plain": ("mls", "sharpness")}
"""Abscissa and ordinate, by panel."""

ACCURACIES = ("train_accuracy", "test_accuracy", "sample_accuracy")
"""In the rows of networks, in %; networks trained elsewhere have only the last one."""

KINDS = {
    "pooled": "all",
    "ranks": "ranks",
    "within": "within families",
    "between": "between families",
}
NAMED: dict[str, Any] = {
    "ha": "center",
    "va": "bottom",
    "xytext": (0, 2.5),
    "textcoords": "offset points",
}
"""The names of families, above their centres."""


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
        Correlations(
            {name: part[name].to_numpy() for name in ("x", "y")}, families, clusters=families
        )
        for part in (points, points.rank())
    )
    rhos = {kind: values.rho("x", "y", kind) for kind in ("pooled", "within", "between")}
    for kind, rho in {**rhos, "ranks": ranks.rho("x", "y")}.items():
        low, high = rho.interval()
        yield {"row": kind, "rho": rho.value, "low": low, "high": high}


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """Two panels with points coloured and named by family, above a table of correlations."""
    from seaborn import color_palette

    families = sorted(frame["family"].dropna().unique())
    colors = dict(zip(families, color_palette("husl", len(families)), strict=True))
    axes = fig.subplots(2, len(PANELS), height_ratios=(4, 1))
    for ax, below, (panel, (x, y)) in zip(axes[0], axes[1], PANELS.items(), strict=True):
        here = frame[frame["panel"] == panel]
        ax.set(xscale="log", yscale="log", xlabel=title_of(figure, x), ylabel=title_of(figure, y))
        for family, points in here[here["row"] == "run"].groupby("family"):
            columns = ("x_value", "y_value", "y_error", "x_error")
            style = {"color": colors[family], "ms": 2.5, "elinewidth": 0.4}
            ax.errorbar(*(points[name] for name in columns), fmt="o", **style)
            centre = (points[name].median() for name in columns[:2])
            ax.annotate(family, tuple(centre), fontsize=6, color=colors[family], **NAMED)
        plain_numbers(ax)
        ax.grid(alpha=0.25, lw=0.4)
        below.set_axis_off()
        below.text(0, 1, _summary(here), va="top", fontsize=6.5, linespacing=1.4, in_layout=False)
    letters(axes[0])


def _summary(here: pd.DataFrame) -> str:
    """The correlations of a panel, one to a line, and how many networks it lacks."""
    rows = here.set_index("row")
    parts = [
        f"{word}: {correlation(*rows.loc[kind, ['rho', 'low', 'high']])}".replace("\n", " ")
        for kind, word in KINDS.items()
    ]
    count, left_out = (here["row"] == "run").sum(), int(here["left_out"].iloc[0])
    return "\n".join([f"{count} networks, {left_out} left out", *parts])
