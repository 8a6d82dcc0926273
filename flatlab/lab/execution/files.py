"""Networks from files, carried out: each is measured, and all are joined to a table."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from flatlab.lab.jobs.job import RunningJob
from flatlab.lab.jobs.memory import quick_imports


def measure(job: RunningJob) -> xr.Dataset:
    """Measure some families on one network."""
    with quick_imports():
        from flatlab.lab.execution.own_networks import measured

    return measured(job)


def tabulate(parts: Sequence[xr.Dataset], settings: Mapping[str, Any]) -> xr.Dataset:
    """The table of the datasets of all metric files, network by network."""
    from flatlab.lab.plan.run_records import RunRecords
    from flatlab.lab.tables.own_networks import Row, gather

    networks = settings["networks"]
    records = RunRecords(
        files=tuple(Path(network["file"]) for network in networks.values()),
        hyperparameters=tuple(network["hyperparameters"] for network in networks.values()),
        outcomes=tuple(network["outcomes"] for network in networks.values()),
        seeds=tuple(network["seed"] for network in networks.values()),
    )
    places = [place for place in range(len(networks)) for _ in range(settings["jobs"])]
    rows = [(place, Row.of(part)) for place, part in zip(places, parts, strict=True)]
    return gather(rows, records, settings["about"])
