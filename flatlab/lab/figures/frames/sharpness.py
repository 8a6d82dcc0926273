"""`Points` with `rows`: sharpness against errors, a row per definition, with Kendall's tau."""

import itertools

import numpy as np
import pandas as pd

from flatlab.lab.figures.labels import headings, values_in_words
from flatlab.lab.figures.quantities import networks, require
from flatlab.lab.figures.render import Settings, Tables
from flatlab.lab.tables.ranks import at_radius, groups_of, rank_correlations


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """Rows `run`: a network in a panel.  Rows `tau`: Kendall's tau of a panel or of a `group` of
    its networks, with its interval, over so many `networks`.  Rows `count`: how many of the
    networks `of` an experiment, or of a group, are shown.
    """
    parts, titles = [], headings(tables)
    for experiment, table in tables.items():
        factors = [name for name in (*figure["groups"], figure["size"], figure["shade"]) if name]
        end, kept = networks(table, [*figure["columns"], *factors], figure)
        about = pd.DataFrame({"name": end["run"].values} | {n: end[n].values for n in factors})
        head = {"experiment": titles[experiment]}
        for key, rows in {(): about, **groups_of(about, figure["groups"])}.items():
            values = dict(zip(figure["groups"], key, strict=False))
            numbers = {"networks": kept[rows.index].sum(), "of": len(rows)}
            group = {"group": values_in_words(figure, values), **values, **numbers}
            parts.append(pd.DataFrame([{"row": "count", **head, **group}]))
        for (definition, index), y in itertools.product(figure["rows"], figure["columns"]):
            require(end, [definition], "definition")
            require(end, [str(index)], "radius_index")
            values = {"x": at_radius(end, definition, index), "y": end[y].values}
            radii = at_radius(end, definition, index, "radius")
            radius = float(radii[0]) if len(radii) else np.nan
            place = {**head, "definition": definition, "radius_index": index, "radius": radius}
            points = about.assign(**values)[kept]
            both = points.assign(row="run"), taus(points, figure).assign(row="tau")
            parts += [each.assign(ordinate=y, **place) for each in both]
    return pd.concat(parts, ignore_index=True)


def taus(points: pd.DataFrame, figure: Settings) -> pd.DataFrame:
    """Kendall's tau of the columns x and y over all networks, then over each of their groups."""
    rows = []
    for key, chosen in {(): points, **groups_of(points, figure["groups"])}.items():
        (tau,) = rank_correlations(chosen, ("x", "y"))
        low, high = tau.interval()
        group = values_in_words(figure, dict(zip(figure["groups"], key, strict=False)))
        rows.append([group, tau.value, low, high, tau.n])
    return pd.DataFrame(rows, columns=["group", "tau", "low", "high", "networks"])
