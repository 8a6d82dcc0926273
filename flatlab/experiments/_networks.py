"""The section `network` of a grid: its own keys, and the options of the architecture it names."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import structs

from flatlab.experiments._sections import Network
from flatlab.plan.experiments import Source
from flatlab.plan.options import architecture
from flatlab.plan.registry import check_known, keys_of
from flatlab.plan.schema import PlanError, convert, refuse_unknown

NAME, ARCHITECTURE = "name", "architecture"
"""A setting has a name of its own; the `name` of its network is therefore its `architecture`."""
OWN = [key for key in Network.__struct_fields__ if key != "options"]
"""The keys of `network` that belong to no architecture."""


@functools.cache
def options() -> list[str]:
    """The options of all architectures."""
    known = (architecture(key).__struct_fields__ for key in keys_of("networks"))
    return sorted({option for each in known for option in each})


def network_of(
    source: Source, where: str, changes: Mapping[str, Any], place: Callable[[str], str]
) -> Network:
    """The network of a setting; raise `PlanError` with the file and the key.

    changes: the keys of `network` that the setting has.  where, place: where the setting and where
    a key of the section stand. Where a scale or a setting names another architecture than the one
    above, the options that the new one does not have are dropped.
    """
    given: dict[str, Any] = {}
    for there, part in [*source.parts("network"), (where, changes)]:
        name = part.get(NAME, given.get(NAME))
        called = f"{there}.{ARCHITECTURE if there == where else NAME}"
        if not isinstance(name, str):
            raise PlanError(f"{called}: expected an architecture, found {name!r}")
        check_known("networks", name, called)
        known = [*OWN, *architecture(name).__struct_fields__]
        refuse_unknown(part, known, there)
        given = {**{key: given[key] for key in given if key in known}, **part}
    network: Network = convert({k: given.pop(k) for k in OWN if k in given}, Network, place)
    check_known("train/initializations", network.initialization, place("initialization"))
    return structs.replace(network, options=convert(given, architecture(network.name), place))
