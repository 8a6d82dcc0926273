"""Planning stays fast and small where there is much to plan."""

import sys

import pytest

pytestmark = [pytest.mark.workflow, pytest.mark.long]

WATCH = """
import resource, subprocess, sys
subprocess.run([sys.executable, *sys.argv[1:]], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def test_ten_thousand_networks_in_a_thousand_jobs_are_planned_in_seconds(fresh):
    def enlarge(grid):
        grid["settings"] = [{"lr": (1 + n) / 1000, "batch_size": 20} for n in range(500)]
        grid["seeds"] = ["0-19"]
        grid["measure"]["families"] = ["geometry"]
        del grid["measure"]["generalization_gap"]  # an option of another family

    fresh.rewrite_grid(enlarge)
    watched = fresh.start_command(sys.executable, "-c", WATCH, "-m", "snakemake", "--dry-run")
    run = fresh.finish(watched)
    assert sum(job.startswith(("train", "measure")) for job in run.jobs) == 1000
    seconds, kilobytes = map(float, run.output.split()[-2:])
    assert seconds < 20  # of processor time, which other work on the machine does not change
    assert kilobytes < 2**20
