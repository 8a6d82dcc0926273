"""Template `Sweep`: quantities at the end of training along hyper-parameters, a line per value."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.plotting.labels import WORDS, label_of
from flatlab.plotting.quantities import require
from flatlab.plotting.render import Settings, Tables
from flatlab.plotting.style import in_order, legend, letters, plain_numbers
from flatlab.stats.estimate import over_seeds
from flatlab.stats.trends import mean
from flatlab.tables import selection

COLUMNS = ["row", "along", "line", "quantity", "x", "seed", "y", "low", "high", "networks"]


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """Rows `run`: x and y of a network.  Rows `mean`: their mean, with its 95 % interval.

    line: the value of the hyper-parameter of the lines. Networks that diverged are left out, and
    counted nowhere but in the caption.
    """
    (table,) = tables.values()
    along, line, where = list(figure["along"]), figure["line"], figure["where"]
    require(table, figure["quantities"])
    names = selection.hyperparameters(table)
    require(table, [*along, line, *where], "hyper-parameter", names)
    chosen = selection.of_settings(selection.end_of_training(table), where)
    rows = []
    for name in along:
        others = [chosen[other].values == 0 for other in along if other != name]
        runs = chosen.sel(run=np.all(others, axis=0)) if others else chosen
        for quantity in figure["quantities"]:
            rows += _rows(runs, {"along": name, "quantity": quantity}, line)
    return pd.DataFrame(rows, columns=COLUMNS)


def _rows(runs: xr.Dataset, head: dict[str, str], line: str) -> list[dict[str, Any]]:
    """Those of one panel."""
    names = {"x": head["along"], "line": line, "seed": "seed", "y": head["quantity"]}
    values = pd.DataFrame({column: runs[name].values for column, name in names.items()})
    values = values[np.isfinite(values["y"].to_numpy(dtype=float))]
    rows = [{"row": "run", **head, **each} for each in values.to_dict("records")]
    for (at, x), group in values.groupby(["line", "x"]):
        found = over_seeds(head["quantity"], mean, group["y"].to_numpy(dtype=float))
        low, high = found.interval() if found.n > 1 else (np.nan, np.nan)
        numbers = {"y": found.value, "low": low, "high": high, "networks": found.n}
        rows.append({"row": "mean", **head, "line": at, "x": x, **numbers})
    return rows


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A row per quantity and a column per hyper-parameter; with one of these, all in one row."""
    along, quantities = figure["along"], figure["quantities"]
    panels = [(quantity, name) for quantity in quantities for name in along]
    columns = len(quantities) if len(along) == 1 else len(along)
    shape = {"squeeze": False, "sharey": "row" if len(along) > 1 else False}
    axes = fig.subplots(len(panels) // columns, columns, **shape)
    looks = in_order(sorted(set(frame["line"])))
    for (quantity, name), ax in zip(panels, axes.flat, strict=True):
        here = frame[(frame["quantity"] == quantity) & (frame["along"] == name)]
        if quantity in figure["logarithmic"] and (here["y"] > 0).any():
            ax.set_yscale("log")
            plain_numbers(ax)
        for value, look in looks.items():
            _line(ax, here[here["line"] == value], look.options)
        _horizontal(ax, sorted(set(here["x"])), figure["along"][name][1])
        _vertical(ax, frame[frame["quantity"] == quantity] if len(along) > 1 else here)
        if here.empty:
            ax.text(0.5, 0.5, "no networks", transform=ax.transAxes, ha="center", color="0.5")
        ax.set(xlabel=along[name][0], ylabel=label_of(figure, quantity))
        if len(along) > 1:
            ax.label_outer()
    letters(axes.flat)
    word = WORDS.get(figure["line"], figure["line"])
    runs = frame[frame["row"] == "mean"].groupby("line")["networks"]
    entries = {
        f"{word} {value:g} ({_count(runs.get_group(value))})": looks[value] for value in looks
    }
    legend(fig, entries, ms=3.5, fontsize=7)


def _line(ax: Any, rows: pd.DataFrame, options: dict[str, Any]) -> None:
    """A thin line per seed, and a bold one with the means and their intervals."""
    for _, seed in rows[rows["row"] == "run"].sort_values("x").groupby("seed"):
        ax.plot(seed["x"], seed["y"], color=options["color"], lw=0.4, alpha=0.45)
    means = rows[rows["row"] == "mean"].sort_values("x")
    ends = np.abs(means[["low", "high"]].to_numpy(dtype=float).T - means["y"].to_numpy())
    bold = {**options, "lw": 1.5, "ms": 3, "elinewidth": 0.7}
    ax.errorbar(means["x"], means["y"], yerr=np.nan_to_num(ends), **bold)


def _horizontal(ax: Any, values: list[float], kind: str) -> None:
    """Ticks at the values; zero has a place on a symmetric axis."""
    from matplotlib.ticker import NullLocator

    if kind == "symmetric" and (positive := [value for value in values if value > 0]):
        ax.set_xscale("symlog", linthresh=min(positive), linscale=0.5)
    elif kind == "logarithmic":
        ax.set_xscale("log")
    ax.set_xticks(values, [f"{value:g}" for value in values])
    ax.xaxis.set_minor_locator(NullLocator())


def _vertical(ax: Any, rows: pd.DataFrame) -> None:
    """The range of the networks: an interval of few of them may reach beyond it."""
    values = rows["y"].to_numpy(dtype=float)
    if ax.get_yscale() == "log":
        values = values[values > 0]
        if len(values):
            ax.set_ylim(values.min() / 1.2, values.max() * 1.2)
    elif len(values):
        margin = 0.08 * (values.max() - values.min() or abs(values.max()) or 1)
        ax.set_ylim(values.min() - margin, values.max() + margin)


def _count(networks: pd.Series) -> str:
    fewest, most = int(networks.min()), int(networks.max())
    return f"{most} networks" if fewest == most else f"{fewest} to {most} networks"
