"""The small laboratory on a real Slurm."""

import importlib.util
from functools import partial
from pathlib import Path

import pytest

ON_SLURM = ("--workflow-profile", "profiles/slurm")
QUICKLY = ("--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "5")


def _load(name):
    """A module beside this file: a folder of tests is no package."""
    specification = importlib.util.spec_from_file_location(name, Path(__file__).with_name(name))
    assert specification
    assert specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    """A cluster of two nodes, for this run of tests."""
    module = _load("slurm.py")
    if reason := module.why_not():
        pytest.skip(f"no Slurm can be started here: {reason}")
    cluster = module.Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        cluster.until = module.until
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
    slurm.until(lambda: not slurm("squeue", "-h"), "jobs do not end", 60)


@pytest.fixture
def submit(fresh, submit_from):
    """Start the workflow of a laboratory without results on Slurm."""
    return partial(submit_from, fresh)
