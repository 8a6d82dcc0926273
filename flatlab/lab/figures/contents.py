"""What a figure shows: its caption, and what its tables hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr


def caption(figure: Mapping[str, Any], tables: Mapping[str, xr.Dataset]) -> str:
    """What a figure shows, and the networks of each of its tables that it shows."""
    published, brief = figure["publication"], len(tables) > 2
    held = [about(shown(figure, table), published, brief) for table in tables.values()]
    return " ".join([figure["caption"], *held])


def about(table: xr.Dataset, publication: bool = True, brief: bool = False) -> str:
    """What a table holds, so that no stand-in can pass for the paper's.

    publication: whether the experiment in full is a paper's.
    brief: without the accuracy of the networks of a zoo.
    """
    from flatlab.lab.figures.labels import extent_of, networks_of
    from flatlab.lab.tables.selection import counts, extent

    a = table.attrs
    counted = extent(a, **counts(table)) if "network" in a else a["extent"]
    what = extent_of({**a, "extent": counted})
    if brief:
        what = "; ".join(part for part in what.split("; ") if "accuracy" not in part)
    full = networks_of(a["stands_in_for"])
    full = f"the paper's {full or 'experiment'}" if publication else full or "the full experiment"
    instead = {"stand-in": f"; they stand in for {full}", "reduced": f"; reduced from {full}"}
    return f"{what[0].upper()}{what[1:]}{instead.get(a['evidence'], '')}."


def shown(figure: Mapping[str, Any], table: xr.Dataset) -> xr.Dataset:
    """The networks of a table that a figure is about.

    Those of the settings in its `where`, and of its `seeds`; of a figure through training, those
    that were measured through training.
    """
    from flatlab.lab.figures.labels import of_architecture
    from flatlab.lab.tables.selection import of_seeds, of_settings, with_trajectories

    where, seeds = figure.get("where", {}), figure.get("seeds", ())
    if not where and not seeds and not figure["through_training"]:
        return table
    chosen = of_settings(with_trajectories(table) if figure["through_training"] else table, where)
    if seeds:
        chosen = of_seeds(chosen, seeds)
    if "not_converged" in table.attrs:
        slow = int((chosen["ended"].values == "finished").sum())
        chosen = chosen.assign_attrs(not_converged=slow)
    if "architecture" in where:
        names = ("network", "stands_in_for")
        attrs = {name: of_architecture(table.attrs[name], where["architecture"]) for name in names}
        chosen = chosen.assign_attrs(attrs)
    return chosen
