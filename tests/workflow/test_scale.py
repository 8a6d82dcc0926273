"""Planning stays fast and small where there is much to plan."""

from __future__ import annotations

import resource

import pytest

pytestmark = pytest.mark.workflow


def test_ten_thousand_networks_in_a_thousand_jobs_are_planned_in_seconds(fresh):
    def enlarge(grid):
        grid["settings"] = [{"lr": (1 + n) / 1000, "batch_size": 20} for n in range(500)]
        grid["seeds"] = ["0-19"]
        grid["measure"]["families"] = ["geometry"]

    fresh.rewrite_grid(enlarge)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = fresh.snakemake("--dry-run")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert sum(job.startswith(("train", "measure")) for job in run.jobs) == 1000
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert seconds < 20  # of processor time, which other work on the machine does not change
    assert after.ru_maxrss < 2**20  # kB; of the largest child so far
