"""The status commands that Snakemake finds before Slurm's own: profiles/slurm/bin."""

import os
import subprocess
from pathlib import Path

import pytest

BIN = Path(__file__).resolve().parents[2] / "profiles/slurm/bin"
QUESTION = ("--noheader", "--name", "flatlab_run")


@pytest.fixture
def ask(tmp_path):
    """Ask one of ours, where the real ones do as the bodies of these scripts say."""

    def run(name, *arguments, **real):
        for program, body in real.items():
            path = tmp_path / program
            path.write_text(f"#!/bin/sh\n{body}\n")
            path.chmod(0o755)
        environment = {"PATH": f"{BIN}:{tmp_path}:/usr/bin:/bin", "STATE": str(tmp_path / "state")}
        command = [str(BIN / name), *arguments]
        environment["TMPDIR"] = str(tmp_path)
        return subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
        )

    return run


def test_a_query_that_fails_is_asked_again(ask):
    """What a failure printed is no answer."""
    body = 'echo "9|FAILED"; [ -e $STATE ] && echo "7|RUNNING" && exit; touch $STATE; exit 1'
    done = ask("squeue", *QUESTION, squeue=body)
    assert (done.returncode, done.stdout) == (0, "9|FAILED\n7|RUNNING\n")
    done = ask("squeue", *QUESTION, squeue='echo "7|RUNNING"; echo noise >&2')
    assert (done.returncode, done.stdout) == (0, "7|RUNNING\n")


def test_without_accounting_sacct_is_answered_by_squeue(ask):
    disabled = 'echo "Slurm accounting storage is disabled" >&2; exit 1'
    done = ask("sacct", *QUESTION, sacct=disabled, squeue='echo "7|COMPLETED|$*"')
    assert done.returncode == 0
    assert done.stdout.startswith("7|COMPLETED|--format=%i|%T --states=all")
    assert done.stdout.endswith("--name flatlab_run\n")


def test_other_questions_go_to_the_real_command_as_they_are(ask):
    done = ask("sacct", "-nu", "me", sacct='echo "[$*]"; exit 3')
    assert (done.returncode, done.stdout) == (3, "[-nu me]\n")
