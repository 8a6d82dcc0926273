"""The table of networks that were trained elsewhere; it has what that of a grid has.

Dimensions: run, checkpoint (one, 1: the trained network), samples (train), layer. Coordinates of a
run: setting, seed, its hyper-parameters, file, parameters, failure (why it could not be measured),
and `diverged` (whether it is left out, because of that or without a finite training loss).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from flatlab.core.store import as_strings
from flatlab.lab.plan.run_records import RunRecords

Array = np.ndarray
GIVEN = "given: "
"""What precedes the name of an outcome in a metric file."""
PERFORMANCE = ("train_", "test_", "error_gap", "loss_gap")
"""How quantities of whole training and test sets begin; others are of a sample set."""


class Row(NamedTuple):
    """What was measured on a network.

    values: by quantity.
    about: `failure`, `parameters`, `samples` (how many it was measured on), `loss`, `coordinates`
        of dimensions, `outcomes` by name if its training has told some, and for each quantity
        `described`: its attributes and its `dims`.
    """

    values: dict[str, Array]
    about: dict[str, Any]

    @property
    def dataset(self) -> xr.Dataset:
        """As a dataset: a metric file of the workflow."""
        about = dict(self.about)
        coordinates, described = about.pop("coordinates"), about.pop("described")
        variables = {
            name: (described[name]["dims"], values, _without_dims(described[name]))
            for name, values in self.values.items()
        }
        for name, value in about.pop("outcomes", {}).items():
            variables[f"{GIVEN}{name}"] = (), np.array(value), {}
        coords = {dim: as_strings([*map(str, names)]) for dim, names in coordinates.items()}
        return xr.Dataset(variables, coords, about)

    @classmethod
    def of(cls, dataset: xr.Dataset) -> "Row":
        """From such a dataset."""
        names = [str(name) for name in dataset.data_vars]
        measured = [name for name in names if not name.startswith(GIVEN)]
        outcomes = {n.removeprefix(GIVEN): float(dataset[n]) for n in names if n not in measured}
        about = {
            **dataset.attrs,
            "coordinates": {str(dim): dataset[dim].values.tolist() for dim in dataset.dims},
            "described": {n: {**dataset[n].attrs, "dims": [*dataset[n].dims]} for n in measured},
            "outcomes": outcomes,
        }
        return cls({name: dataset[name].values for name in measured}, about)


def _without_dims(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in attributes.items() if key != "dims"}


def gather(
    rows: Sequence[tuple[int, Row]], records: RunRecords, about: Mapping[str, Any]
) -> xr.Dataset:
    """Join rows to a table.

    rows: each behind the place of its network in the records. A quantity that several rows of one
        network have is that of the first.
    records: hyper-parameters and outcomes; these go before measured quantities of the same name.
    about: attributes, to which `extent` is added: what the table holds, and what failed, in words.
    """
    count = len(records.files)
    described = {name: each for _, row in rows for name, each in row.about["described"].items()}
    labels: dict[str, list[str]] = {}
    for _, row in rows:
        for dim, names in row.about["coordinates"].items():
            labels[dim] = list(dict.fromkeys([*labels.get(dim, []), *map(str, names)]))
    variables: dict[str, Any] = {}
    for name, attributes in described.items():
        variables[name] = _variable(name, rows, count, dict(attributes), labels)
    outcomes = [dict(each) for each in records.outcomes]
    for place, row in rows:
        outcomes[place] = {**row.about.get("outcomes", {}), **outcomes[place]}
    for name in dict.fromkeys(name for each in outcomes for name in each):
        given = np.array([[each.get(name, np.nan)] for each in outcomes], float)
        words = {"long_name": f"{name.replace('_', ' ')}, as given", "units": "", "source": ""}
        variables[name] = (("run", "checkpoint"), given, words)
    if "train_loss" not in variables:  # where there are no targets, or nothing could be measured
        variables["train_loss"] = ("run", "checkpoint"), np.full((count, 1), np.nan)
    used = {dim for dims, *_ in variables.values() for dim in dims}
    coordinates = {dim: as_strings(names) for dim, names in labels.items() if dim in used}
    table = xr.Dataset(variables, {**coordinates, **_coordinates(rows, records)})
    table = table.assign_coords(diverged=("run", _diverged(rows, table)))
    more = {
        "hyperparameters": [*records.hyperparameters[0]],
        "outcomes": list(dict.fromkeys(name for each in outcomes for name in each)),
        "extent": _extent(rows, table, about),
        "samples": max(row.about["samples"] for _, row in rows),
        "loss": next((row.about["loss"] for _, row in rows if "loss" in row.about), ""),
    }
    return table.assign_attrs({"stands_in_for": "", "differs": [], "left_out": 0, **about, **more})


def _diverged(rows: Sequence[tuple[int, Row]], table: xr.Dataset) -> Array:
    """Whether nothing of a network could be measured, or its training loss is not finite."""
    measured = {place for place, row in rows if row.values}
    nothing = np.array([place not in measured for place in range(table.sizes["run"])])
    loss = table["train_loss"].values[:, 0]
    told = np.isfinite(loss).any()  # without targets it is known of none
    return nothing | ~np.isfinite(loss) if told else nothing


def _extent(rows: Sequence[tuple[int, Row]], table: xr.Dataset, about: Mapping[str, Any]) -> str:
    samples = max(row.about["samples"] for _, row in rows)
    failed = int((table["failure"].values != "").sum())
    words = (
        f"{table.sizes['run']} networks of {about['model']} on {samples} samples of "
        f"{about['data']}, trained {about['trained']}"
    )
    return f"{words}; {failed} could not be measured" if failed else words


def _variable(
    name: str,
    rows: Sequence[tuple[int, Row]],
    count: int,
    attributes: dict[str, Any],
    labels: Mapping[str, list[str]],
) -> tuple[tuple[str, ...], Array, dict[str, Any]]:
    """A quantity of all networks; NaN where one has no value, such as for layers of others."""
    dims = attributes.pop("dims")
    shape = [len(labels[dim]) for dim in dims]
    values = np.full((count, 1, *shape), np.nan)
    for place, row in reversed(rows):  # of two rows of one network, the first counts
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


def _coordinates(rows: Sequence[tuple[int, Row]], records: RunRecords) -> dict[str, Any]:
    count = len(records.files)
    failures: list[list[str]] = [[] for _ in range(count)]
    for place, row in rows:
        if row.about["failure"] not in ("", *failures[place]):
            failures[place].append(row.about["failure"])
    words = {
        "run": records.names,
        "setting": records.settings,
        "file": [str(file) for file in records.files],
        "failure": ["; ".join(each) for each in failures],
        "ended": ["finished"] * count,
    }
    found: dict[str, Any] = {name: ("run", as_strings(each)) for name, each in words.items()}
    found |= {"checkpoint": [1], "samples": as_strings(["train"])}
    found["seed"] = "run", np.array(records.seeds, np.int64)
    found["steps"] = "run", np.ones(count, np.int64)
    sizes = {place: row.about["parameters"] for place, row in rows}
    found["parameters"] = "run", np.array([sizes.get(n, 0) for n in range(count)], np.int64)
    for name in records.hyperparameters[0]:
        found[name] = "run", _column([values[name] for values in records.hyperparameters])
    return found


def _column(values: list[Any]) -> Array:
    """Numbers, or words where one of them is no number."""
    if all(isinstance(value, int | float | np.number) for value in values):
        return np.array(values, float)
    return as_strings([str(value) for value in values])
