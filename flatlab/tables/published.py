"""Older published tables and verdicts, read as today's code would write them.

Some of `results/published/` was made when tables of grids, studies and zoos had attributes of
their own. This is the only module that knows these; it goes once everything is published anew.
"""

from collections.abc import Mapping
from typing import Any

import xarray as xr

from flatlab.tables.runs import extent
from flatlab.tables.selection import counts

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
    if "classification_loss" in table:  # `train_loss` was that of half-mse
        table = table.assign(train_loss=table["classification_loss"].sel(samples="train"))
    numbers = counts(table) if "diverged" in table.coords else {}
    return table.assign_attrs(_current(table.attrs, key, numbers))


def with_tables(verdicts: Mapping[str, Any]) -> dict[str, Any]:
    """The verdicts on a figure, with `tables`: experiment -> attributes of its table."""
    if "tables" in verdicts:
        return dict(verdicts)
    before = {**verdicts["grids"], **verdicts.get("studies", {})}
    rest = {name: value for name, value in verdicts.items() if name not in ("grids", "studies")}
    return {**rest, "tables": {key: _current(about, key, about) for key, about in before.items()}}


def _current(before: Mapping[str, Any], key: str, numbers: Mapping[str, int]) -> dict[str, Any]:
    """Today's attributes, from those of a grid, a study or a zoo.

    numbers: of a grid, how many `runs` did not diverge, and how many `diverged`.
    """
    about, stands_in_for = {**before}, before.get("stands_in_for", "")
    suffix = f"; it stands in for the paper's {stands_in_for}"  # of zoos; captions say it anyway
    if "network" in before:
        replaced, on, data = stands_in_for.partition(" on ")
        stands_in_for = f"{network_now(replaced)}{on}{data}"
        about["network"] = network_now(before["network"])
    if "extent" in before:
        words = before["extent"].removesuffix(suffix)
    else:
        words = extent(about, numbers["runs"], numbers["diverged"])
    return {
        **about,
        "experiment": key,
        "name": before.get("study", key),
        "extent": words,
        "stands_in_for": stands_in_for,
    }
