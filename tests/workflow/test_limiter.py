"""The Snakefile switches off Snakemake's limiter of submissions for local runs: is that needed?"""

import inspect
from pathlib import Path

from snakemake.scheduling.job_scheduler import JobScheduler

SNAKEFILE = Path(__file__).resolve().parents[2] / "Snakefile"


def test_snakemake_still_waits_for_a_limiter_that_only_clusters_need():
    """If this fails, remove `job_rate_limiter` from the Snakefile, and this file."""
    assert "workflow.scheduler.job_rate_limiter = None" in SNAKEFILE.read_text()
    source = "".join(inspect.getsource(JobScheduler).split())
    again = "self._schedule_reevalutation(self.job_rate_limiter.timespan)"
    assert "ifself.job_rate_limiterisnotNone:#needtoreevaluate" in source
    assert again in source, "Snakemake's loop over jobs does not look again for each job any more"
    assert "job_rate_limiter=(JobRateLimiter(" in source, "the limiter is another attribute"
