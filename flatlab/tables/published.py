"""Older published tables and verdicts, read as today's code would write them.

Some of `results/published/` was made when tables of grids, studies and zoos had attributes of
their own. This is the only module that knows these; it goes once everything is published anew.
"""

from collections.abc import Mapping
from typing import Any

import xarray as xr

from flatlab.tables.runs import counts, extent

NETWORKS = {
    "mlp3": "mlp (width 200, depth 3)",
    "mlp3-small": "mlp (width 32, depth 3)",
    "mlp4": "mlp",
    "mlp4-small": "mlp (width 64)",
    "mlp4-regression": "mlp (width 256)",
    "mlp4-regression-small": "mlp (width 64)",
    "lenet5-small": "lenet5 (kernel 3, padding 1)",
    "vgg11": "vgg",
    "vgg-narrow": "vgg (widths 16-pool-16-pool-32-pool-64-pool-64-pool, hidden 128, padding 2)",
    "vgg-small": "vgg (widths 8-8-pool-16-16-pool, hidden 32-32)",
}
"""Today's labels of networks whose width was a file of its own, by their former keys."""


def network_now(name: str) -> str:
    """Today's label of a network of a published table, verdict or benchmark."""
    return NETWORKS.get(name, name)


def with_current_names(table: xr.Dataset, key: str) -> xr.Dataset:
    """A table with today's attributes; one that has them already is returned unchanged.

    key: the experiment that it is the table of.
    """
    if "experiment" in table.attrs:
        return table
    renamed = _with_networks(table.attrs)
    about = renamed | (counts(table) if "diverged" in table.coords else {})
    return table.assign_attrs({**renamed, **_current(about, key)})


def with_tables(verdicts: Mapping[str, Any]) -> dict[str, Any]:
    """The verdicts on a figure, with `tables`: experiment -> attributes of its table."""
    if "tables" in verdicts:
        return dict(verdicts)
    before = {**verdicts["grids"], **verdicts.get("studies", {})}
    rest = {name: value for name, value in verdicts.items() if name not in ("grids", "studies")}
    abouts = {key: _with_networks(about) for key, about in before.items()}
    return {**rest, "tables": {key: {**a, **_current(a, key)} for key, a in abouts.items()}}


def _with_networks(about: Mapping[str, Any]) -> dict[str, Any]:
    """The same attributes with today's labels of networks."""
    renamed = dict(about)
    if "network" in about:
        replaced, on, data = about["stands_in_for"].partition(" on ")
        renamed["stands_in_for"] = f"{network_now(replaced)}{on}{data}"
        renamed["network"] = network_now(about["network"])
    return renamed


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
