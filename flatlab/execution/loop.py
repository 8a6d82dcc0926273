"""A grid that a function of a study trains, carried out: trained run by run, measured as files."""

import xarray as xr

from flatlab.execution.files import measure as measure_file
from flatlab.execution.files import tabulate
from flatlab.jobs.imports import quick_imports
from flatlab.jobs.job import RunningJob
from flatlab.store import load_weights

__all__ = ["measure", "tabulate", "train"]


def train(job: RunningJob) -> None:
    """Train one run."""
    with quick_imports():
        from flatlab.execution.own_code import function_of
        from flatlab.execution.own_training import trained_run

    settings = job.params.settings
    name, study = settings["function"], settings["study"]
    function = function_of(name, "train", study)
    arrays, outcomes = trained_run(function, name, settings["arguments"], study)
    job.save(weights=(arrays, {"outcomes": outcomes}))


def measure(job: RunningJob) -> xr.Dataset:
    """Measure some families on one run, and note the outcomes that its training has told."""
    from flatlab.tables.own_networks import Row

    _, about = load_weights(job.input.weights)
    row = Row.of(measure_file(job))
    return Row(row.values, {**row.about, "outcomes": about["outcomes"]}).dataset
