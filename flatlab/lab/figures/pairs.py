"""Template `Pairs`: a point per network, one quantity against another, and their correlation."""

import itertools
from collections.abc import Iterator
from typing import Any

import pandas as pd

from flatlab.lab.figures import labels
from flatlab.lab.figures.points import OfSettings, Panel, draw_panels
from flatlab.lab.figures.render import Settings
from flatlab.lab.tables.networks import BESIDE, ResultTables


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """Rows `run`: a network's two quantities.  Rows `rho`: their correlation and its interval, and
    those within settings and adjusted for the training loss.
    """
    parts, titles = [], labels.headings(tables.tables)
    for experiment, networks in tables.items():
        names, settings = networks.data["run"].values, labels.in_words(networks.data)
        known = tables.correlations(experiment, itertools.chain(*figure["pairs"]))
        for x, y in figure["pairs"]:
            head = {"experiment": titles[experiment], "x": x, "y": y}
            points = {"x_value": networks.values(x), "y_value": networks.values(y)}
            parts.append(
                pd.DataFrame({"row": "run", **head, "name": names, "setting": settings, **points})
            )
            pair = known.sel(x=x, y=y)
            rho = {name: float(pair[name].sel(kind="pooled")) for name in ("rho", "low", "high")}
            rho |= {kind: float(pair["rho"].sel(kind=kind)) for kind in BESIDE}
            parts.append(pd.DataFrame([{"row": "rho", **head, **rho}]))
    return pd.concat(parts, ignore_index=True)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A row per pair, a column per experiment; of one experiment, two columns."""
    looks, panels = OfSettings(frame[frame["row"] == "run"]), [*_panels(frame, figure)]
    across = figure["across"] or min(len(panels), max(2, frame["experiment"].nunique()))
    draw_panels(fig, panels, looks, across)


def _panels(frame: pd.DataFrame, figure: Settings) -> Iterator[Panel]:
    panels = frame.groupby(["x", "y", "experiment"])
    experiments = dict.fromkeys(frame["experiment"])
    for (x, y), experiment in itertools.product(figure["pairs"], experiments):
        rows = panels.get_group((x, y, experiment)).set_index("row")
        points = rows.loc[["run"]].drop(columns=["x", "y"])
        numbers: Any = rows.loc["rho"]
        yield Panel(
            points.rename(columns={"x_value": "x", "y_value": "y"}),
            (labels.title_of(figure, x), labels.title_of(figure, y)),
            numbers,
            "rho",
            {"same setting": [numbers["within"]]},
            heading=experiment,
            logarithmic=("x", "y") if figure["equality"] else (),
            equality=figure["equality"],
        )
