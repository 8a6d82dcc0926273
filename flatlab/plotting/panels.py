"""Template `Panels`: sharpness against errors, a row per definition, with Kendall's tau."""

import itertools
from typing import Any

import numpy as np
import pandas as pd

from flatlab.plotting import labels, style
from flatlab.plotting.points import NARROW, Looks, in_words
from flatlab.plotting.quantities import definition_in_words, networks, require
from flatlab.plotting.render import Settings, Tables
from flatlab.tables.ranks import at_radius, groups_of, rank_correlations


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """Rows `run`: a network in a panel.  Rows `tau`: Kendall's tau of a panel or of a `group` of
    its networks, with its interval, over so many `networks`.  Rows `count`: how many of the
    networks `of` an experiment, or of a group, are shown.
    """
    parts, titles = [], labels.headings(tables)
    for experiment, table in tables.items():
        factors = [name for name in (*figure["groups"], figure["size"], figure["shade"]) if name]
        end, kept = networks(table, [*figure["columns"], *factors], figure)
        about = pd.DataFrame({"name": end["run"].values} | {n: end[n].values for n in factors})
        head = {"experiment": titles[experiment]}
        for key, rows in {(): about, **groups_of(about, figure["groups"])}.items():
            values = dict(zip(figure["groups"], key, strict=False))
            numbers = {"networks": kept[rows.index].sum(), "of": len(rows)}
            group = {"group": in_words(figure, values), **values, **numbers}
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
        group = in_words(figure, dict(zip(figure["groups"], key, strict=False)))
        rows.append([group, tau.value, low, high, tau.n])
    return pd.DataFrame(rows, columns=["group", "tau", "low", "high", "networks"])


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A row per definition; the columns of each experiment side by side."""
    runs, taus = (frame[frame["row"] == row] for row in ("run", "tau"))
    experiments = list(dict.fromkeys(frame["experiment"]))
    columns = list(itertools.product(experiments, figure["columns"]))
    shape = len(figure["rows"]), len(columns)
    across = figure["across"] or len(columns)
    axes = fig.subplots(np.prod(shape) // across, across, squeeze=False).reshape(shape)
    looks, narrow = Looks(frame, figure), across >= NARROW
    place = ["experiment", "ordinate", "definition", "radius_index"]
    for (row, column), ax in np.ndenumerate(axes):
        (experiment, y), (definition, index) = columns[column], figure["rows"][row]
        key = [experiment, y, definition, index]
        points, here = (each[(each[place] == key).all(axis=1)] for each in (runs, taus))
        looks.scatter(ax, points)
        _scales(ax, points, y in figure["logarithmic"])
        heading = "" if row or y != figure["columns"][0] else f"{experiment}\n"
        ax.set_title(f"{heading}{_printed(here, narrow)}", loc="left")
        radius = rf"$\rho$ = {here['radius'].iloc[0]:g}"
        case, scale, *logits = definition_in_words(definition).split(", ")
        ax.set_xlabel(
            f"{case}, {scale}\n{', '.join([*logits, radius])}", fontsize=6.0 if narrow else 6.5
        )
        ax.set_ylabel(labels.label_of(figure, y), fontsize=6.5)
    style.letters(axes.flat)
    looks.explain(fig, axes)


def _printed(taus: pd.DataFrame, narrow: bool) -> str:
    """Kendall's tau over all networks, and the smallest and the largest over groups of them."""
    whole = taus[taus["group"] == ""].iloc[0]
    text = style.correlation(*whole[["tau", "low", "high"]], symbol=r"\tau")
    text = text if narrow else text.replace("\n", " ")
    inside = taus["tau"][taus["group"] != ""].dropna()
    if len(inside) < 2:
        return text
    low, high = (f"{end:.2f}".replace("-", "−") for end in (inside.min(), inside.max()))
    return f"{text}\n{'in' if narrow else 'within'} groups {low} to {high}"


def _scales(ax: Any, points: pd.DataFrame, logarithmic: bool) -> None:
    """A logarithmic abscissa; linear around zero where an average case is not positive."""
    x = points["x"][np.isfinite(points["x"])]
    if logarithmic and len(points):
        ax.set_yscale("log")
    if len(x) and x.min() > 0:
        ax.set_xscale("log")
        style.plain_numbers(ax)
        style.few_labels(ax.xaxis, x)
    elif (size := x[x != 0].abs()).size:
        ax.set_xscale("symlog", linthresh=size.quantile(0.5))
        ax.xaxis.get_major_locator().set_params(numticks=4)
    ax.tick_params(labelsize=6, which="both", width=0.5, length=2, pad=1.5)
    ax.grid(which="major", lw=0.3, color="0.9")
