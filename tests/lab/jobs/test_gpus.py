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

from flatlab.lab.jobs.gpus import visible_gpus
from flatlab.lab.jobs.job import running
from flatlab.lab.jobs.standalone import Named

JOB = """
import os, sys
from flatlab.lab.jobs.gpus import take_gpu
take_gpu()
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


def test_all_tasks_of_a_process_use_the_gpu_on_which_cuda_has_started(
    job, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As `flatlab run` does, which trains and then measures; no other job has it meanwhile."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1, 2, 3")
    for _ in range(2):
        with running(about("cuda", 1, tmp_path)):
            assert visible_gpus() == ["1"]
    others = [job("1, 2, 3").stdout.readline().strip() for _ in range(2)]
    assert sorted(others) == ["2", "3"]
    with running(about("cuda", 1, tmp_path)):
        assert visible_gpus() == ["1"]


def about(device: str, gpu: int, folder: Path) -> SimpleNamespace:
    return SimpleNamespace(
        rule="train",
        input=Named(),
        output=Named(weights=str(folder / "weights")),
        params=Named(),
        wildcards=Named(),
        config={"device": device},
        resources=SimpleNamespace(gpu=gpu),
    )


@pytest.mark.parametrize(("device", "gpu", "shown"), [("cuda", 1, ["0"]), ("cpu", 1, ["0", "1"])])
def test_jobs_that_compute_on_gpus_take_one(
    device: str, gpu: int, shown: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with running(about(device, gpu, tmp_path)) as job:
        assert job.device == device
        assert visible_gpus() == shown
