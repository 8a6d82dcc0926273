"""The small laboratory on a real Slurm."""

from functools import partial

import pytest

from tests.workflow.cluster.slurm import Slurm, until, why_not

ON_SLURM = ("--workflow-profile", "profiles/slurm")
QUICKLY = ("--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "5")


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    """A cluster of two nodes, for this run of tests."""
    if reason := why_not():
        pytest.skip(f"no Slurm can be started here: {reason}")
    cluster = Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def submit_from(slurm):
    """Start the workflow of a laboratory on Slurm; its jobs end with the test."""
    labs = []

    def start(lab, *arguments, **options):
        labs.append(lab)
        return lab.start(*arguments, *ON_SLURM, *QUICKLY, **options)

    yield start
    for lab in labs:
        lab.stop()
    slurm("scancel", "--user=root")
    until(lambda: not slurm("squeue", "-h"), "jobs do not end", 60)


@pytest.fixture
def submit(fresh, submit_from):
    """Start the workflow of a laboratory without results on Slurm."""
    return partial(submit_from, fresh)
