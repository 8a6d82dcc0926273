"""What families have measured on many networks, as one dataset: all labels, NaN elsewhere."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from flatlab.core.store import as_strings

Variables = dict[str, tuple[tuple[str, ...], np.ndarray]]
"""By quantity: its dimensions and its values."""
GIVEN = "given: "
"""What precedes the name of an outcome in a metric file."""


class Row(NamedTuple):
    """What was measured on a network, and what is known of it, as JSON has it.

    values: by quantity.
    about: `failure`, `coordinates` of dimensions, `parameters` and more. Of networks that users
        built also `samples` (how many it was measured on), `loss`, `outcomes` by name if its
        training has told some, and for each quantity `described`: its attributes and its `dims`.
    """

    values: dict[str, np.ndarray]
    about: dict[str, Any]

    @property
    def coordinates(self) -> dict[str, list[str]]:
        """The labels along dimensions."""
        return self.about["coordinates"]

    @property
    def dataset(self) -> xr.Dataset:
        """As a metric file of one network, with what is described."""
        about = dict(self.about)
        coordinates, described = about.pop("coordinates"), about.pop("described")
        variables: dict[str, Any] = {}
        for name, values in self.values.items():
            attributes = dict(described[name])
            variables[name] = attributes.pop("dims"), values, attributes
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


def stacked(
    measured: Sequence[tuple[tuple[int, ...], Any]],
    networks: Mapping[str, int],
    dims: Mapping[str, tuple[str, ...]],
) -> tuple[Variables, dict[str, np.ndarray]]:
    """Variables and coordinates of a dataset; NaN where a network has no value.

    measured: the results of networks, behind their places along `networks`: with `values` by
        quantity, and `coordinates`, the labels of dimensions. Values stand at their labels, since
        networks may have other layers. At one place the first result with a value counts.
    networks: the dimensions of the networks, such as run and checkpoint, with their sizes.
    dims: the other dimensions of each quantity that may be in the dataset, in order; quantities
        that no network has are not.
    """
    labels: dict[str, list[str]] = {}
    for _, results in measured:
        for dim, names in results.coordinates.items():
            labels[dim] = list(dict.fromkeys([*labels.get(dim, []), *map(str, names)]))
    variables: Variables = {}
    for name, of_quantity in dims.items():
        having = [(place, results) for place, results in measured if name in results.values]
        if not having:
            continue
        like = having[0][1].values[name]
        sizes = [
            len(labels[dim]) if dim in labels else size
            for dim, size in zip(of_quantity, like.shape, strict=True)
        ]
        values = np.full((*networks.values(), *sizes), np.nan)
        for place, results in having[::-1]:  # what is written last stays: the first result
            there = [
                [labels[dim].index(str(label)) for label in results.coordinates[dim]]
                if dim in labels
                else [*range(size)]
                for dim, size in zip(of_quantity, sizes, strict=True)
            ]
            index: tuple[Any, ...] = (*place, *np.ix_(*there))
            values[index] = results.values[name]
        variables[name] = (*networks, *of_quantity), values
    used = {dim for of_variable, _ in variables.values() for dim in of_variable}
    return variables, {dim: as_strings(names) for dim, names in labels.items() if dim in used}
