"""A project folder without results, and commands that succeed."""

import shutil
from pathlib import Path

import pytest
import yaml

from flatlab.cli import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with the repository's configuration, in which the test runs."""
    shutil.copy(ROOT / "config.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def small_zoo(papers):
    """Write an experiment, `small-zoo`: the networks of a grid, in two jobs."""

    def write(grid, **adaptive):
        scale = {"name": "small-zoo", "grid": grid}
        measure = {"families": ["adaptive"], "samples": 2, "seed": 0}
        zoo = {
            **{"kind": "networks", "from": "grid", "title": "The networks of a grid", "jobs": 2},
            **{"measure": {**measure, "outputs": "sigmoid", "rho": 0.1, **adaptive}},
            "scales": {"paper": scale, "short": scale, "demo": scale},
        }
        (papers / "beyond/experiments/small-zoo.yaml").write_text(yaml.safe_dump(zoo))

    return write


@pytest.fixture
def printed(capsys):
    """Run a command that succeeds; returns what it prints."""

    def run(*arguments):
        capsys.readouterr()
        assert main([*map(str, arguments)]) == 0
        return capsys.readouterr().out

    return run
