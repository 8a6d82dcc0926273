"""Template `Sweep`: quantities at the end of training along hyper-parameters, by another."""

from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.figures import style
from flatlab.lab.figures.labels import WORDS, label_of, title_of
from flatlab.lab.figures.render import Settings
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
    looks = style.in_order(sorted(set(frame["line"])), figure["line"])
    for (quantity, name), ax in zip(panels, axes.flat, strict=True):
        here = frame[(frame["quantity"] == quantity) & (frame["along"] == name)]
        if quantity in figure["logarithmic"] and (here["y"] > 0).any():
            ax.set_yscale("log")
            style.plain_numbers(ax)
        values = sorted(set(here["x"]))
        for place in range(len(values)):
            ax.axvspan(place - 0.35, place + 0.35, color="0.95", lw=0, zorder=0)
        for place, (value, look) in enumerate(looks.items()):
            aside = 0.09 * (place - (len(looks) - 1) / 2)
            _means(ax, here[here["line"] == value], values, aside, look.options)
        ax.set_xticks(range(len(values)), [f"{value:g}" for value in values])
        ax.set_xlim(-0.4, max(len(values) - 0.6, 0.4))
        ends = frame[frame["quantity"] == quantity] if len(along) > 1 else here
        style.span(ax, pd.concat([ends["y"], ends["low"], ends["high"]]).astype(float), factor=1.1)
        if here.empty:
            ax.text(0.5, 0.5, "no networks", transform=ax.transAxes, ha="center", color="0.5")
        ax.set_title(along[name] if len(along) > 1 else label_of(figure, quantity), loc="left")
        label = title_of(figure, quantity).replace(" (", "\n(")
        ax.set_xlabel(along[name] if ax in axes[-1] else "")
        ax.set_ylabel(label if ax in axes[:, 0] or len(along) == 1 else "")
    style.letters(axes.flat)
    word = WORDS.get(figure["line"], figure["line"])
    runs = frame[frame["row"] == "mean"].groupby("line")["networks"]
    entries = {
        f"{word} {value:g} ({style.counted(runs.get_group(value), 'network')})": looks[value]
        for value in looks
    }
    style.legend(fig, entries, ms=3.5, fontsize=7)


def _means(
    ax: Any, rows: pd.DataFrame, values: list[float], aside: float, options: dict[str, Any]
) -> None:
    """A pale point per network, and a line with the means and their intervals.

    values: of the hyper-parameter, which have equal distances. aside: so that bars do not overlap.
    """
    rows = rows.assign(place=rows["x"].map(values.index) + aside)
    runs, means = rows[rows["row"] == "run"], rows[rows["row"] == "mean"].sort_values("x")
    ax.plot(runs["place"], runs["y"], **{**options, "ls": "", "ms": 2, "alpha": 0.35})
    ends = np.abs(means[["low", "high"]].to_numpy(dtype=float).T - means["y"].to_numpy())
    bold = {**options, "lw": 0.9, "ms": 3.5, "elinewidth": 1.0}
    ax.errorbar(means["place"], means["y"], yerr=np.nan_to_num(ends), **bold)
