"""Looking up the quantities that a declaration names in a table."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from flatlab.core.schema import closest
from flatlab.lab.tables.ranks import eligible, ended
from flatlab.lab.tables.selection import hyperparameters


class FigureError(ValueError):
    """A declaration names something that a table lacks; the message lists what the table has."""


def require(
    table: xr.Dataset,
    names: Iterable[str],
    what: str = "quantity",
    known: Iterable[Hashable] | None = None,
) -> None:
    """Raise `FigureError` with the closest match if a table lacks one of the names.

    what: `quantity`, or the coordinate that must have these values, such as `samples` or `x`.
    known: the names to choose from, if they are neither.
    """
    if known is None:
        known = table.data_vars if what == "quantity" else table[what].values
    known_names = list(map(str, known))
    for name in names:
        if name not in known_names:
            where = table.attrs.get("experiment", "the table")
            raise FigureError(f"{where} has no {what} {name!r}; {closest(name, known_names)}")


def with_parts(table: xr.Dataset, parts: Mapping[str, Mapping[str, str]]) -> xr.Dataset:
    """The table with parts of its quantities as additional quantities.

    parts: {"first_layer_norm": {"of": "weight_norm", "layer": "fc1"}}.
    """
    for name, part in parts.items():
        where = {dim: value for dim, value in part.items() if dim != "of"}
        require(table, [part["of"]])
        require(table, where, "dimension", table[part["of"]].dims)
        for dim, value in where.items():
            require(table, [value], dim)
        table = table.assign({name: table[part["of"]].sel(where)})
    return table


def networks(
    table: xr.Dataset, names: Iterable[str], figure: Mapping[str, Any]
) -> tuple[xr.Dataset, np.ndarray]:
    """The networks at the end of training with a figure's `parts`, and which it is about: (run).

    names: quantities and hyper-parameters that it shows.
    """
    end = with_parts(ended(table), figure["parts"])
    shown = [*names, *figure["groups"], *figure["at_most"]]
    require(end, shown, "quantity", [*end.data_vars, *hyperparameters(end), *end.coords])
    require(end, ["sharpness_at_radius"])
    return end, eligible(end, figure["at_most"])


def definition_in_words(name: str) -> str:
    """A definition of sharpness: average-standard-l2 -> average, standard, with a formula."""
    case, scale, norm = name.split("-")
    cases = {"worst": "worst case", "average": "average"}
    scales = {"normalized": "adaptive, logits normalized"}
    norms = {"l2": r"$\ell_2$", "linf": r"$\ell_\infty$"}
    return f"{cases[case]} {norms[norm]}, {scales.get(scale, scale)}"
