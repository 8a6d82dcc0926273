"""A grid, carried out: a pack of trained networks is measured, and packs are joined to a table."""

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from flatlab.core.store import TrainedPack, load_dataset
from flatlab.lab.jobs.job import RunningJob
from flatlab.lab.jobs.memory import quick_imports


def measure(job: RunningJob) -> xr.Dataset:
    """Measure a family of quantities on the checkpoints of a pack."""
    with quick_imports():
        from flatlab.data._dataset import folder_of

        if "transformations" in job.params.settings:
            from flatlab.metrics._measure_transformed import measure_transformed as measure_pack
        else:
            from flatlab.metrics._measure_pack import measure_pack
    files = job.input.weights, job.input.get("dense")  # of families at the end alone there is none
    weights = [TrainedPack.load(path) for path in files if path]
    raw = load_dataset(job.input.data)
    folder = folder_of(job.config.get("data_folder"))
    return measure_pack(weights, raw, job.params.settings, job.device, folder)


def tabulate(parts: Sequence[xr.Dataset], settings: Mapping[str, Any]) -> xr.Dataset:
    """The table of the datasets of all metric files."""
    from flatlab.lab.tables.runs import collect

    return collect(parts, settings)
