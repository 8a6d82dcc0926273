"""A project folder without results, and commands that succeed or are refused."""

import shutil
from pathlib import Path

import pytest

from flatlab.cli import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with the repository's configuration, in which the test runs."""
    shutil.copy(ROOT / "config.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def printed(capsys):
    """Run a command that succeeds; returns what it prints."""

    def run(*arguments, status=0):
        capsys.readouterr()
        assert main([*map(str, arguments)]) == status
        return capsys.readouterr().out

    return run


@pytest.fixture
def refusal(capsys):
    """Run a command that is refused; returns the one sentence that says why."""

    def run(*arguments):
        capsys.readouterr()
        assert main([*map(str, arguments)]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("flatlab: ")
        assert err.strip().count("\n") == 0
        return err.removeprefix("flatlab: ").strip()

    return run
