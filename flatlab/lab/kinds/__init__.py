"""The kinds of experiments, one file each: its keys, its packs, its jobs and its table.

A file `<kind>.py` has a class of that name, a `flatlab.lab.plan.experiments.Experiment`, which
plans; `measure(job)`, which computes one metric file; and `tabulate(parts, settings)`, which joins
them to a table. Planning imports these files and must not wait for torch: what carries out imports
what it needs inside. Nothing else in the package knows a kind.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xarray import Dataset

    from flatlab.lab.jobs.job import RunningJob
else:
    Dataset = RunningJob = Any
