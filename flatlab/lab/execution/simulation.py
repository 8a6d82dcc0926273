"""A simulation, carried out: its table is the dataset of its one metric file."""

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from flatlab.core.registry import imported
from flatlab.lab.jobs.job import RunningJob
from flatlab.lab.jobs.memory import quick_imports


def measure(job: RunningJob) -> xr.Dataset:
    """Run the simulation."""
    settings = dict(job.params.settings)
    with quick_imports():
        module = imported("simulations", settings.pop("simulation"))
    table: xr.Dataset = module.table(module.Options(**settings))
    return table


def tabulate(parts: Sequence[xr.Dataset], settings: Mapping[str, Any]) -> xr.Dataset:
    """The table: what was simulated, described."""
    (whole,) = parts
    return whole.assign_attrs(settings["about"])
