"""The table of networks that were trained elsewhere; it has what that of a grid has.

Dimensions: run, checkpoint (one, 1: the trained network), samples (train), layer. Coordinates of a
run: setting, seed, its hyper-parameters, file, parameters, failure (why it could not be measured),
and `diverged` (whether it is left out, because of that or without a finite training loss).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from flatlab.plan.schema import OWN
from flatlab.store import as_strings
from flatlab.tables.run_records import RunRecords

Array = np.ndarray
PERFORMANCE = ("train_", "test_", "error_gap", "loss_gap")
"""How quantities of whole training and test sets begin; others are of a sample set."""


class Row(NamedTuple):
    """What was measured on a network.

    values: by quantity.
    about: `failure`, `parameters`, `coordinates` of dimensions, and for each quantity `described`:
        its attributes and its `dims`.
    """

    values: dict[str, Array]
    about: dict[str, Any]


def gather(rows: Sequence[Row], records: RunRecords, about: Mapping[str, Any]) -> xr.Dataset:
    """Join the rows to a table.

    rows: of the networks, in the order of the records.
    records: hyper-parameters and outcomes; these go before measured quantities of the same name.
    about: attributes, to which what failed is added.
    """
    described = {name: each for row in rows for name, each in row.about["described"].items()}
    labels: dict[str, list[str]] = {}
    for row in rows:
        for dim, names in row.about["coordinates"].items():
            labels[dim] = list(dict.fromkeys([*labels.get(dim, []), *map(str, names)]))
    variables: dict[str, Any] = {}
    for name, attributes in described.items():
        variables[name] = _variable(name, rows, dict(attributes), labels)
    for name in dict.fromkeys(name for each in records.outcomes for name in each):
        given = np.array([[each[name]] for each in records.outcomes])
        words = {"long_name": f"{name.replace('_', ' ')}, as given", "units": "", "source": ""}
        variables[name] = (("run", "checkpoint"), given, words)
    if "train_loss" not in variables:  # of no network that could be measured
        variables["train_loss"] = ("run", "checkpoint"), np.full((len(rows), 1), np.nan)
    loss = variables["train_loss"][1][:, 0]
    failed = np.array([bool(row.about["failure"]) for row in rows])
    used = {dim for dims, *_ in variables.values() for dim in dims}
    coordinates = {dim: as_strings(names) for dim, names in labels.items() if dim in used}
    table = xr.Dataset(variables, {**coordinates, **_coordinates(rows, records)})
    table = table.assign_coords(diverged=("run", failed | ~np.isfinite(loss)))
    names = [*records.hyperparameters[0]]
    extent = about["extent"] + (f"; {failed.sum()} could not be measured" if failed.any() else "")
    more = {"hyperparameters": names, "extent": extent, "evidence": OWN, "stands_in_for": ""}
    return table.assign_attrs({**about, **more, "differs": [], "left_out": 0})


def _variable(
    name: str, rows: Sequence[Row], attributes: dict[str, Any], labels: Mapping[str, list[str]]
) -> tuple[tuple[str, ...], Array, dict[str, Any]]:
    """A quantity of all networks; NaN where one has no value, such as for layers of others."""
    dims = attributes.pop("dims")
    shape = [len(labels[dim]) for dim in dims]
    values = np.full((len(rows), 1, *shape), np.nan)
    for place, row in enumerate(rows):
        if name in row.values:
            there = [
                [labels[dim].index(str(label)) for label in row.about["coordinates"][dim]]
                for dim in dims
            ]
            index: Any = (place, 0, *np.ix_(*there))
            values[index] = row.values[name]
    if name.startswith(PERFORMANCE):
        return ("run", "checkpoint", *dims), values, attributes
    return ("run", "checkpoint", "samples", *dims), values[:, :, None], attributes


def _coordinates(rows: Sequence[Row], records: RunRecords) -> dict[str, Any]:
    stems = [file.stem for file in records.files]
    names = stems if len({*stems}) == len(stems) else [str(file) for file in records.files]
    words = {
        "run": names,
        "setting": records.settings,
        "file": [str(file) for file in records.files],
        "failure": [row.about["failure"] for row in rows],
        "ended": ["finished"] * len(rows),
    }
    found: dict[str, Any] = {name: ("run", as_strings(each)) for name, each in words.items()}
    found |= {"checkpoint": [1], "samples": as_strings(["train"])}
    found["seed"] = "run", np.array(records.seeds, np.int64)
    found["steps"] = "run", np.ones(len(rows), np.int64)
    found["parameters"] = "run", np.array([row.about["parameters"] for row in rows], np.int64)
    for name in records.hyperparameters[0]:
        found[name] = "run", _column([values[name] for values in records.hyperparameters])
    return found


def _column(values: list[Any]) -> Array:
    """Numbers, or words where one of them is no number."""
    if all(isinstance(value, int | float | np.number) for value in values):
        return np.array(values, float)
    return as_strings([str(value) for value in values])
