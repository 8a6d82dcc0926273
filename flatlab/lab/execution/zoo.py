"""A zoo, carried out: its networks are measured one by one, and joined to a table."""

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from flatlab.core.resume_state import ResumeState
from flatlab.lab.jobs.job import RunningJob
from flatlab.lab.jobs.memory import quick_imports


def measure(job: RunningJob) -> xr.Dataset:
    """Measure some of the networks, those that an earlier attempt has measured excepted."""
    with quick_imports():
        from flatlab.data._dataset import folder_of
        from flatlab.metrics._measure_zoo import measure_zoo

    folder = folder_of(job.config.get("data_folder"))
    identity = {"settings": job.params.settings, "code": job.params.code}
    left = ResumeState(job.unfinished, identity)
    return measure_zoo(job.params.settings, job.input, folder, left, job.device)


def tabulate(parts: Sequence[xr.Dataset], settings: Mapping[str, Any]) -> xr.Dataset:
    """The table of the datasets of all metric files."""
    from flatlab.lab.tables.zoo import gather

    return gather(parts, settings["about"])
