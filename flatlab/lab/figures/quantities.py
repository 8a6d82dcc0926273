"""The networks of a table and their columns, as a declaration names them."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import xarray as xr
from numpy.typing import NDArray

from flatlab.core.schema import closest
from flatlab.lab.tables.columns import Column, UnknownColumn
from flatlab.lab.tables.networks import Networks
from flatlab.lab.tables.selection import hyperparameters
from flatlab.stats.estimate import Array


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


@dataclass(frozen=True, eq=False, repr=False)
class ShownNetworks(Networks):
    """Networks of a figure at the end of training; what a table lacks is a `FigureError`.

    aliases: what the figure calls columns, {"corrupted_error": "test_set_error[corrupted]"}.
    """

    aliases: Mapping[str, str] = field(default_factory=dict)

    def values(self, name: str) -> Array:
        """A column, by its name or its alias: (networks)."""
        column = Column.of(self.aliases.get(name, name))
        self._require(column.quantity)
        try:
            return column.values(self.data)
        except UnknownColumn as missing:
            hint = closest(missing.name, missing.known)
            what = f"{missing.what} {missing.name!r}"
            raise FigureError(f"{self.key} has no {what}; {hint}") from None

    def factor(self, name: str) -> NDArray[Any]:
        """A hyper-parameter, whose values may be words, or a column: (networks)."""
        if name in self.aliases:
            return self.values(name)
        self._require(name)
        return self.data[name].values if name in self.data.coords else self.values(name)

    def _require(self, quantity: str) -> None:
        data = self.data
        require(data, [quantity], known=[*data.data_vars, *hyperparameters(data), *data.coords])


def networks_in(table: xr.Dataset, aliases: Mapping[str, str] | None = None) -> ShownNetworks:
    """The networks of a table that a figure may show."""
    every = ShownNetworks.of(str(table.attrs.get("experiment", "the table")), table)
    return replace(every, aliases=aliases or {})


def definition_in_words(name: str) -> str:
    """A definition of sharpness: average-standard-l2 -> average, standard, with a formula."""
    case, scale, norm = name.split("-")
    cases = {"worst": "worst case", "average": "average"}
    scales = {"normalized": "adaptive, logits normalized"}
    norms = {"l2": r"$\ell_2$", "linf": r"$\ell_\infty$"}
    return f"{cases[case]} {norms[norm]}, {scales.get(scale, scale)}"
