"""Looking up the quantities that a declaration names in a table."""

from collections.abc import Iterable, Mapping

import xarray as xr

from flatlab.plan.schema import closest


class FigureError(ValueError):
    """A declaration names something that a table lacks; the message lists what the table has."""


def require(table: xr.Dataset, names: Iterable[str], within: str = "quantity") -> None:
    """Raise `FigureError` if a table lacks one of the quantities.

    within: `quantity`, or the coordinate that must have these values, such as `samples` or `x`.
    """
    known = table.data_vars if within == "quantity" else table[within].values
    refuse_unknown(table, names, [str(name) for name in known], within)


def refuse_unknown(table: xr.Dataset, names: Iterable[str], known: list[str], what: str) -> None:
    """Raise `FigureError` with the closest match if a name is unknown."""
    for name in names:
        if name not in known:
            where = table.attrs.get("experiment", "the table")
            raise FigureError(f"{where} has no {what} {name!r}; {closest(name, known)}")


def with_parts(table: xr.Dataset, parts: Mapping[str, Mapping[str, str]]) -> xr.Dataset:
    """The table with parts of its quantities as additional quantities.

    parts: {"first_layer_norm": {"of": "weight_norm", "layer": "fc1"}}.
    """
    for name, part in parts.items():
        where = {dim: value for dim, value in part.items() if dim != "of"}
        require(table, [part["of"]])
        refuse_unknown(table, where, [str(dim) for dim in table[part["of"]].dims], "dimension")
        for dim, value in where.items():
            require(table, [value], dim)
        table = table.assign({name: table[part["of"]].sel(where)})
    return table
