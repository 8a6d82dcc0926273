"""Template `Sweep`: quantities at the end of training along hyper-parameters, by another."""

from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.figures import style
from flatlab.lab.figures.labels import WORDS, label_of
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import counted, in_order, legend, letters
from flatlab.lab.tables.networks import Networks, ResultTables
from flatlab.stats.estimate import over_seeds
from flatlab.stats.trends import mean

COLUMNS = ["row", "along", "line", "quantity", "x", "seed", "y", "low", "high", "networks"]


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """Rows `run`: x and y of a network.  Rows `mean`: their mean, with its 95 % interval.

    line: the value of the hyper-parameter of the lines. Networks that diverged are left out, and
    counted nowhere but in the caption.
    """
    ((_, networks),) = tables.items()
    along, line = list(figure["along"]), figure["line"]
    networks = networks.where(**figure["where"])
    rows = []
    for name in along:
        runs = networks.where(**{other: 0 for other in along if other != name})
        for quantity in figure["quantities"]:
            rows += _rows(runs, {"along": name, "quantity": quantity}, line)
    return pd.DataFrame(rows, columns=COLUMNS)


def _rows(runs: Networks, head: dict[str, str], line: str) -> list[dict[str, Any]]:
    """Those of one panel."""
    names = {"x": head["along"], "line": line, "seed": "seed"}
    values = pd.DataFrame({column: runs.labels(name) for column, name in names.items()})
    values = values.assign(y=runs.values(head["quantity"]))
    values = values[np.isfinite(values["y"])]
    rows = [{"row": "run", **head, **each} for each in values.to_dict("records")]
    for (at, x), group in values.groupby(["line", "x"]):
        estimate = over_seeds(head["quantity"], mean, group["y"].to_numpy(dtype=float))
        low, high = estimate.interval() if estimate.n > 1 else (np.nan, np.nan)
        numbers = {"y": estimate.value, "low": low, "high": high, "networks": estimate.n}
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
            style.plain_numbers(ax)
        for value, look in looks.items():
            _means(ax, here[here["line"] == value], look.options)
        _hyperparameter(ax, sorted(set(here["x"])), figure["along"][name][1])
        rows = frame[frame["quantity"] == quantity] if len(along) > 1 else here
        style.span(ax, rows["y"].astype(float), factor=1.2)  # an interval may reach beyond it
        if here.empty:
            ax.text(0.5, 0.5, "no networks", transform=ax.transAxes, ha="center", color="0.5")
        ax.set(xlabel=along[name][0], ylabel=label_of(figure, quantity))
        if len(along) > 1:
            ax.label_outer()
    letters(axes.flat)
    word = WORDS.get(figure["line"], figure["line"])
    runs = frame[frame["row"] == "mean"].groupby("line")["networks"]
    entries = {
        f"{word} {value:g} ({counted(runs.get_group(value), 'network')})": looks[value]
        for value in looks
    }
    legend(fig, entries, ms=3.5, fontsize=7)


def _means(ax: Any, rows: pd.DataFrame, options: dict[str, Any]) -> None:
    """A thin line per seed, and a bold one with the means and their intervals."""
    for _, seed in rows[rows["row"] == "run"].sort_values("x").groupby("seed"):
        ax.plot(seed["x"], seed["y"], color=options["color"], lw=0.4, alpha=0.45)
    means = rows[rows["row"] == "mean"].sort_values("x")
    ends = np.abs(means[["low", "high"]].to_numpy(dtype=float).T - means["y"].to_numpy())
    bold = {**options, "lw": 1.5, "ms": 3, "elinewidth": 0.7}
    ax.errorbar(means["x"], means["y"], yerr=np.nan_to_num(ends), **bold)


def _hyperparameter(ax: Any, values: list[float], kind: str) -> None:
    """Ticks at the values; zero has a place on a symmetric axis."""
    if kind == "symmetric" and (positive := [value for value in values if value > 0]):
        ax.set_xscale("symlog", linthresh=min(positive), linscale=0.5)
    elif kind == "logarithmic":
        ax.set_xscale("log")
    style.at_values(ax, values)
