"""Each GPU job of a machine has a GPU of its own; the devices are names, which is all we handle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flatlab.cli.run import Named
from flatlab.jobs import task
from flatlab.jobs.gpus import own_gpu, visible_gpus

JOB = """
import os, sys
from flatlab.jobs.gpus import own_gpu
with own_gpu():
    print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Start a process that takes a GPU, prints which, and holds it until it reads a line."""
    started = []

    def start(visible: str) -> Any:
        process = subprocess.Popen(
            [sys.executable, "-c", JOB],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": visible, "TMPDIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_each_job_has_its_own_and_one_too_many_waits(job) -> None:
    visible = "3,5,GPU-8f2a/1"
    first, second, third = (job(visible) for _ in range(3))
    taken = [process.stdout.readline().strip() for process in (first, second, third)]
    assert sorted(taken) == ["3", "5", "GPU-8f2a/1"]
    fourth = job(visible)
    assert "all of 3 GPUs are taken" in fourth.stderr.readline()
    second.send_signal(signal.SIGKILL)  # which leaves no time to tidy up
    assert fourth.stdout.readline().strip() == taken[1]


def test_where_one_is_visible_there_is_nothing_to_choose(job) -> None:
    """A cluster shows each job its own, by a number that may be the same for all."""
    assert [job("0").stdout.readline().strip() for _ in range(3)] == ["0", "0", "0"]


def test_the_variable_is_as_before_afterwards(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1, 2")
    with own_gpu():
        assert visible_gpus() == ["1"]
        with own_gpu():  # a second task of one process, as packs that are trained together are
            assert visible_gpus() == ["1"]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1, 2"


@pytest.mark.parametrize(("device", "gpu", "shown"), [("cuda", 1, ["0"]), ("cpu", 1, ["0", "1"])])
def test_jobs_that_compute_on_gpus_take_one(
    device: str, gpu: int, shown: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    about = SimpleNamespace(
        rule="train",
        input=Named(),
        output=Named(weights=str(tmp_path / "weights")),
        params=Named(),
        wildcards=Named(),
        config={"device": device},
        resources=SimpleNamespace(gpu=gpu),
    )
    with task(about) as running:
        assert running.device == device
        assert visible_gpus() == shown
