"""A grid that a function of a study trains, carried out: trained run by run, measured as files."""

import xarray as xr

from flatlab.core.store import load_weights
from flatlab.lab.execution.files import measure as measure_file
from flatlab.lab.execution.files import tabulate
from flatlab.lab.jobs.job import RunningJob
from flatlab.lab.jobs.memory import quick_imports

__all__ = ["measure", "tabulate", "train"]


def train(job: RunningJob) -> None:
    """Train one run."""
    with quick_imports():
        from flatlab.lab.execution.own_code import function_of
        from flatlab.lab.execution.own_training import trained_run

    settings = job.params.settings
    name, study = settings["function"], settings["study"]
    function = function_of(name, "train", study)
    arrays, outcomes = trained_run(function, name, settings["arguments"], study)
    job.save(weights=(arrays, {"outcomes": outcomes}))


def measure(job: RunningJob) -> xr.Dataset:
    """Measure some families on one run, and note the outcomes that its training has told."""
    from flatlab.lab.tables.own_networks import Row

    _, about = load_weights(job.input.weights)
    row = Row.of(measure_file(job))
    return Row(row.values, {**row.about, "outcomes": about["outcomes"]}).dataset
