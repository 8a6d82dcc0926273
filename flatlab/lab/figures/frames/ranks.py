"""`Intervals` with `columns`: Kendall's tau of sharpness and errors, by definition and radius.

Beside it is what the paper prints. The CSV has the same for groups of networks.
"""

import itertools

import numpy as np
import pandas as pd

from flatlab.lab.figures.frames.sharpness import taus
from flatlab.lab.figures.labels import headings
from flatlab.lab.figures.quantities import networks, require
from flatlab.lab.figures.render import Settings, Tables
from flatlab.lab.tables.ranks import at_radius


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """A row per experiment, definition, radius, ordinate and group of networks ("" for all): tau
    with its interval, over so many `networks` of all; `paper`, the printed tau; `same_sign`.
    """
    parts, titles = [], headings(tables)
    for experiment, table in tables.items():
        end, kept = networks(table, figure["columns"], figure)
        about = pd.DataFrame(
            {name: end[name].values for name in figure["groups"]}, range(len(kept))
        )
        printed = figure["printed"].get(experiment, {})
        require(end, printed, "definition")
        definitions = list(printed) or end["definition"].values.tolist()
        places = itertools.product(definitions, range(end.sizes["radius_index"]))
        for (definition, index), (number, y) in itertools.product(
            places, enumerate(figure["columns"])
        ):
            radii = at_radius(end, definition, index, "radius")
            if not len(radii) or np.isnan(radii[0]):
                continue
            points = about.assign(x=at_radius(end, definition, index), y=end[y].values)[kept]
            place = {"experiment": titles[experiment], "definition": definition, "ordinate": y}
            theirs = [*(printed[definition][number] if printed else ()), *[np.nan] * (index + 1)]
            rows = taus(points, figure).assign(radius=radii[0], paper=theirs[index], **place)
            rows.loc[rows["group"] != "", "paper"] = np.nan
            parts.append(rows)
    whole = pd.concat(parts, ignore_index=True)
    agrees = np.sign(whole["tau"]) == np.sign(whole["paper"])
    return whole.assign(same_sign=agrees.where(whole[["tau", "paper"]].notna().all(axis=1)))
