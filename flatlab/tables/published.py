"""Published tables and verdicts of before, as today's code would write them.

What lies in `results/published/` was made when tables of grids, studies and zoos had attributes of
their own. This is the one place that knows these; it goes when everything has been published anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xarray as xr


def with_current_names(table: xr.Dataset, key: str) -> xr.Dataset:
    """A table with the attributes that every table has; one that has them stays as it is.

    key: the experiment that it is the table of.
    """
    if "experiment" in table.attrs:
        return table
    about = dict(table.attrs)
    if "diverged" in table.coords:
        diverged = int(table["diverged"].sum())
        about |= {"diverged": diverged, "runs": table.sizes["run"] - diverged}
    return table.assign_attrs(_current(about, key))


def with_tables(verdicts: Mapping[str, Any]) -> dict[str, Any]:
    """The verdicts on a figure, with `tables`: experiment -> attributes of its table."""
    if "tables" in verdicts:
        return dict(verdicts)
    before = {**verdicts["grids"], **verdicts.get("studies", {})}
    rest = {name: value for name, value in verdicts.items() if name not in ("grids", "studies")}
    return {**rest, "tables": {key: {**a, **_current(a, key)} for key, a in before.items()}}


def _current(about: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The attributes that every table has, from those of a grid, a study or a zoo."""
    stands_in_for = about.get("stands_in_for", "")
    suffix = f"; it stands in for the paper's {stands_in_for}"  # of zoos; captions say it anyway
    extent = about["extent"].removesuffix(suffix) if "extent" in about else _extent(about)
    return {
        "experiment": key,
        "name": about.get("study", key),
        "extent": extent,
        "stands_in_for": stands_in_for,
    }


def _extent(about: Mapping[str, Any]) -> str:
    """How much a grid has, in words."""
    not_trained = f"; {about['left_out']} more are not trained" if about["left_out"] else ""
    return (
        f"{about['runs']} {about['network']} networks on {about['data']}, {about['length']} each; "
        f"{about['diverged']} diverged and left out{not_trained}"
    )
