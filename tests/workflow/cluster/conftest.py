"""The small laboratory on a real Slurm."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROFILE = ("--workflow-profile", "profiles/slurm")
QUICKLY = ("--slurm-init-seconds-before-status-checks", "3", "--latency-wait", "5")
FACTORY = "flatlab_cluster_slurm"


def _slurm() -> Any:
    """The module beside this file; a folder of tests is no package."""
    if FACTORY not in sys.modules:
        path = Path(__file__).with_name("slurm.py")
        specification = importlib.util.spec_from_file_location(FACTORY, path)
        assert specification
        assert specification.loader
        sys.modules[FACTORY] = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(sys.modules[FACTORY])
    return sys.modules[FACTORY]


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A cluster of two nodes. All its jobs are of this test run."""
    module = _slurm()
    if reason := module.why_not():
        pytest.skip(f"no Slurm can be started here: {reason}")
    cluster = module.Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def until(slurm) -> Any:
    """Wait until something is so."""
    return _slurm().until
