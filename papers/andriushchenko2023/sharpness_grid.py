"""Template `SharpnessGrid`: sharpness against errors, a row per definition, with Kendall's tau.

Of several experiments, the picture shows the first, and its supplement the others. Where networks
have groups, a last column has the tau of each group.
"""

import copy
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.figures.labels import headings, label_of, values_in_words
from flatlab.lab.figures.points import OfFactors, Panel, draw_panels, forest, groups_of
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import LARGEST, MIDDLE, SMALLEST, Look, lettered
from flatlab.lab.tables.eligibility import FEWEST_RANKED
from flatlab.lab.tables.networks import ResultTables
from flatlab.stats.estimate import Estimate, undefined
from flatlab.stats.ranks import Ranks


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """Rows `run`: a network in a panel.  Rows `tau`: Kendall's tau of a panel or of a `group` of
    its networks, with its interval, over so many `networks`.  Rows `count`: how many of the
    networks `of` an experiment, or of a group, are shown.
    """
    parts, titles = [], headings(tables.tables)
    for experiment, every in tables.items():
        factors = [name for name in (*figure["groups"], figure["size"], figure["shade"]) if name]
        kept = every.at_most(**figure["at_most"]).rows[every.rows]
        names = ("run", *factors)
        about = pd.DataFrame({name: every.labels(column_of(figure, name)) for name in names})
        about = about.rename(columns={"run": "name"})
        head = {"experiment": titles[experiment]}
        for key, rows in {(): about, **groups_of(about, figure["groups"])}.items():
            values = dict(zip(figure["groups"], key, strict=False))
            numbers = {"networks": kept[rows.index].sum(), "of": len(rows)}
            group = {"group": values_in_words(figure, values), **values, **numbers}
            parts.append(pd.DataFrame([{"row": "count", **head, **group}]))
        for (definition, index), y in itertools.product(figure["rows"], figure["columns"]):
            x, y_values = map(every.values, (at_radius(definition, index), column_of(figure, y)))
            radii = every.values(at_radius(definition, index, "radius"))
            radius = float(radii[0]) if len(radii) else np.nan
            place = {**head, "definition": definition, "radius_index": index, "radius": radius}
            points = about.assign(x=x, y=y_values)[kept]
            both = points.assign(row="run"), taus(points, figure).assign(row="tau")
            parts += [each.assign(ordinate=y, **place) for each in both]
    return pd.concat(parts, ignore_index=True)


def column_of(figure: Settings, name: str) -> str:
    """The column that a figure, and its CSV, may call by another name."""
    column: str = figure["aliases"].get(name, name)
    return column


def at_radius(definition: str, index: int, name: str = "at_radius") -> str:
    """The column of sharpness by one definition, at its radius of this number.

    name: or of another of these quantities, `radius`, the radius itself.
    """
    return f"sharpness_{name}[{definition}, {index}]"


def taus(points: pd.DataFrame, figure: Settings) -> pd.DataFrame:
    """Kendall's tau of the columns x and y over all networks, then over each of their groups."""
    rows = []
    for key, chosen in {(): points, **groups_of(points, figure["groups"])}.items():
        tau = tau_of(chosen)
        low, high = tau.interval()
        group = values_in_words(figure, dict(zip(figure["groups"], key, strict=False)))
        rows.append([group, tau.value, low, high, tau.n])
    return pd.DataFrame(rows, columns=["group", "tau", "low", "high", "networks"])


def tau_of(points: pd.DataFrame) -> Estimate:
    """Kendall's tau-a of the columns x and y, over the networks for which both are finite."""
    values = points[["x", "y"]].astype(float)
    kept = values[np.isfinite(values).all(axis=1)]
    if len(kept) < FEWEST_RANKED:
        return undefined("tau(x, y)", f"tau(x, y): {len(kept)} networks have both")
    return Ranks({name: kept[name].to_numpy() for name in ("x", "y")}, None).tau("x", "y")


def definition_in_words(name: str) -> str:
    """A definition of sharpness: average-standard-l2 -> average, standard, with a formula."""
    case, scale, norm = name.split("-")
    cases = {"worst": "worst case", "average": "average"}
    scales = {"normalized": "adaptive, logits normalized"}
    norms = {"l2": r"$\ell_2$", "linf": r"$\ell_\infty$"}
    return f"{cases[case]} {norms[norm]}, {scales.get(scale, scale)}"


class OfGroups(OfFactors):
    """What colour, marker and size stand for, the same on all pages of a figure."""

    def __init__(self, frame: pd.DataFrame, figure: Settings) -> None:
        self.counts = frame[(frame["row"] == "count") & (frame["networks"] > 0)]
        factors, size = list(figure["groups"]), figure["size"]
        if factors:
            on_pages = self.counts.groupby("experiment")[factors[0]].nunique()
            if (on_pages == 1).any():  # colour is of a factor that varies on every page
                factors.reverse()
        runs = frame[frame["row"] == "run"]
        self.sizes = self.explained = sorted({*runs[size].dropna()}) if size else []
        super().__init__(pd.concat([self.counts, runs]), figure, factors)

    def of_page(self, frame: pd.DataFrame) -> "OfGroups":
        """The same, whose legend has what this part of the frame shows."""
        page = copy.copy(self)
        page.counts = self.counts[self.counts["experiment"].isin(frame["experiment"])]
        page.explained = [each for each in self.sizes if each in {*frame[self.figure["size"]]}]
        return page

    def diameters(self, rows: pd.DataFrame) -> Sequence[float]:
        if len(self.sizes) < 2:
            return super().diameters(rows)
        step = (LARGEST - SMALLEST) / (len(self.sizes) - 1)
        return [SMALLEST + step * self.sizes.index(value) for value in rows[self.figure["size"]]]

    def explain(self, fig: Any, axes: Any, counted: str = "", across: int = 7) -> None:
        super().explain(fig, axes, counted, int(fig.bbox.width / fig.dpi / 2) or 1)

    def entries(self) -> list[tuple[str, str, str, float]]:
        """Of each group, with the number of its networks, and of sizes."""
        handles = []
        grouped = self.counts[self.counts["group"] != ""].groupby("group", sort=False)
        for label, rows in grouped:
            color, marker = self.of(tuple(rows[name].iloc[0] for name in self.figure["groups"]))
            numbers = [
                f"{n:.0f} of {every:.0f}"
                for n, every in zip(rows["networks"], rows["of"], strict=True)
            ]
            label = f"{label}: {' and '.join(numbers)}" if self.figure["at_most"] else str(label)
            handles.append((label, "0.4" if self.bar else color, marker, MIDDLE))
        shown = self.explained[:: 1 if len(self.explained) < 4 else len(self.explained) - 1]
        of_sizes = self.diameters(pd.DataFrame({self.figure["size"]: shown}))
        for value, size in zip(shown, of_sizes, strict=True):
            label = values_in_words(self.figure, {self.figure["size"]: value})
            handles.append((label, "0.6", "o", size))
        return handles


def draw(fig: Any, frame: pd.DataFrame, figure: Settings, others: bool = False) -> Any:
    """A row per definition and radius, a column per ordinate; the first experiment, or others."""
    of_all = OfGroups(frame, figure)
    of_first = frame["experiment"] == frame["experiment"].iloc[0]
    if (frame := frame[of_first != others]).empty:
        return None
    panels, looks = [*_panels(frame, figure)], of_all.of_page(frame)
    across = figure["across"] or len(panels) // len(figure["rows"])
    if not figure["groups"] or figure["across"]:
        return draw_panels(fig, panels, looks, across)
    left, right = fig.subfigures(1, 2, width_ratios=(across, 0.75))
    draw_panels(left, panels, looks, across)
    axes = right.subplots(len(figure["rows"]), 1, squeeze=False).flat
    groups = looks.counts[looks.counts["group"] != ""].set_index("group")[list(figure["groups"])]
    colors = {group: Look(*looks.of(tuple(key))) for group, key in groups.iterrows()}
    for place, (ax, row) in enumerate(zip(axes, figure["rows"], strict=True), len(panels)):
        of_row = (frame[["definition", "radius_index"]] == [*row]).all(axis=1)
        taus = frame[of_row & (frame["row"] == "tau") & (frame["networks"] > 0)]
        rows = {
            label_of(figure, y): [
                (colors.get(group, Look("0.15", "D")), numbers)
                for group, *numbers in part[["group", "tau", "low", "high"]].to_numpy()
            ]
            for y, part in taus.groupby("ordinate", sort=False)
        }
        forest(ax, rows, r"Kendall's $\tau$, 95 % interval")
        ax.set_title(lettered(place, "all (black), by group"), loc="left")


def supplement(figure: Settings) -> tuple[Callable[..., Any], tuple[float, float]] | None:
    """What draws the second page, and its size."""
    others = functools.partial(draw, others=True)
    return (others, figure["size_inches"]) if len(figure["experiments"]) > 1 else None


def _panels(frame: pd.DataFrame, figure: Settings) -> Iterator[Panel]:
    place = ["experiment", "ordinate", "definition", "radius_index"]
    columns = [*itertools.product(dict.fromkeys(frame["experiment"]), figure["columns"])]
    for (definition, index), (experiment, y) in itertools.product(figure["rows"], columns):
        rows = frame[(frame[place] == [experiment, y, definition, index]).all(axis=1)]
        points, taus = (rows[rows["row"] == row] for row in ("run", "tau"))
        (_, numbers), *_ = taus[taus["group"] == ""].iterrows()
        case, scale, *rest = definition_in_words(definition).split(", ")
        radius = ", ".join([*rest, rf"$\rho$ = {numbers['radius']:g}"])
        first = (definition, index) == tuple(figure["rows"][0]) and y == figure["columns"][0]
        counts = frame[(frame["experiment"] == experiment) & (frame["row"] == "count")].iloc[0]
        yield Panel(
            points,
            (f"{case}, {scale} (loss)\n{radius}", label_of(figure, y)),
            numbers,
            "tau",
            heading=f"{experiment}: {counts['networks']:.0f} of {counts['of']:.0f}" * first,
            logarithmic=("x", "y") if y in figure["logarithmic"] else ("x",),
        )
