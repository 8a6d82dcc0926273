"""What families have measured on many networks, as the variables of one dataset."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from flatlab.core.store import as_strings
from flatlab.measuring.quantity import Measured, Quantity

Variables = dict[str, tuple[tuple[str, ...], np.ndarray]]
"""By quantity: its dimensions and its values."""


def stacked(
    measured: Mapping[tuple[int, ...], Measured],
    networks: Mapping[str, int],
    quantities: Mapping[str, Quantity],
    per_network: tuple[str, ...] = (),
) -> tuple[Variables, dict[str, np.ndarray]]:
    """Variables and coordinates of a dataset; NaN where a network has no value.

    measured: the results of each network, by its place along the dimensions of the networks.
        Values stand at their names along named dimensions: networks may have other layers.
    networks: the dimensions of the networks, with their sizes.
    quantities: those that may be in the dataset, in order; those that no network has are not.
    per_network: dimensions of every value before those of its quantity, such as `samples`.
    """
    labels: dict[str, list[str]] = {}
    for results in measured.values():
        for dim, names in results.coordinates.items():
            labels[dim] = list(dict.fromkeys([*labels.get(dim, []), *names]))
    variables: Variables = {}
    for name, quantity in quantities.items():
        dims = (*per_network, *quantity.dims)
        having = {place: m for place, m in measured.items() if name in m.values}
        if not having:
            continue
        like = next(iter(having.values())).values[name]
        sizes = [
            len(labels[dim]) if dim in labels else size
            for dim, size in zip(dims, like.shape, strict=True)
        ]
        values = np.full((*networks.values(), *sizes), np.nan)
        for place, results in having.items():
            index: tuple[Any, ...] = (*place, *_places(results, dims, sizes, labels))
            values[index] = results.values[name]
        variables[name] = (*networks, *dims), values
    used = {dim for dims, _ in variables.values() for dim in dims}
    return variables, {dim: as_strings(names) for dim, names in labels.items() if dim in used}


def _places(
    results: Measured, dims: tuple[str, ...], sizes: list[int], labels: Mapping[str, list[str]]
) -> tuple[np.ndarray, ...]:
    """Where the values of a network stand among those of all."""
    places = [
        [labels[dim].index(name) for name in results.coordinates[dim]]
        if dim in labels
        else [*range(size)]
        for dim, size in zip(dims, sizes, strict=True)
    ]
    return np.ix_(*places)
