"""Older published tables and verdicts, read as today's code would write them.

Some of `results/published/` was made when tables of grids, studies and zoos had attributes of
their own. This is the only module that knows these; it goes once everything is published anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xarray as xr

from flatlab.tables.runs import counts, extent


def with_current_names(table: xr.Dataset, key: str) -> xr.Dataset:
    """A table with today's attributes; one that has them already is returned unchanged.

    key: the experiment that it is the table of.
    """
    if "experiment" in table.attrs:
        return table
    about = table.attrs | (counts(table) if "diverged" in table.coords else {})
    return table.assign_attrs(_current(about, key))


def with_tables(verdicts: Mapping[str, Any]) -> dict[str, Any]:
    """The verdicts on a figure, with `tables`: experiment -> attributes of its table."""
    if "tables" in verdicts:
        return dict(verdicts)
    before = {**verdicts["grids"], **verdicts.get("studies", {})}
    rest = {name: value for name, value in verdicts.items() if name not in ("grids", "studies")}
    return {**rest, "tables": {key: {**a, **_current(a, key)} for key, a in before.items()}}


def _current(about: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Today's attributes, from those of a grid, a study or a zoo."""
    stands_in_for = about.get("stands_in_for", "")
    suffix = f"; it stands in for the paper's {stands_in_for}"  # of zoos; captions say it anyway
    if "extent" in about:
        words = about["extent"].removesuffix(suffix)
    else:
        words = extent(about, about["runs"], about["diverged"])
    return {
        "experiment": key,
        "name": about.get("study", key),
        "extent": words,
        "stands_in_for": stands_in_for,
    }
