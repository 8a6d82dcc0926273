"""A training job that is stopped goes on where it was, and ends with the same bytes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from filelock import SoftFileLease

pytestmark = [
    pytest.mark.workflow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc"),
]

PATIENCE_S = 120


@pytest.mark.parametrize("request_to_stop", [signal.SIGTERM, signal.SIGINT])
def test_a_job_that_is_asked_to_stop_goes_on_in_the_next_run(request_to_stop, lab):
    pack = lab.PACKS[0]
    lab.rewrite_grid(lambda grid: grid["scales"]["demo"]["training"].update(iterations=1_000_000))
    run = lab.start("--cores", "1", lab.weights(pack))
    holder = _holder_while_training(lab, run, pack)
    os.kill(holder, request_to_stop)
    asked = time.monotonic()
    stopped = lab.finish(run, succeeds=False)
    assert time.monotonic() - asked < 10
    assert f"stopped by {request_to_stop.name} after" in stopped.output
    assert "the next run continues from there" in stopped.output
    unfinished = (lab / lab.weights(pack)).with_suffix(".unfinished")
    assert (unfinished / "state.safetensors").exists()
    assert not (lab / lab.weights(pack)).exists()
    assert _steps(stopped.output) > 0


def test_a_job_that_was_stopped_ends_with_the_bytes_of_one_that_was_not(lab):
    pack = lab.PACKS[0]
    lab.rewrite_grid(lambda grid: grid["scales"]["demo"]["training"].update(iterations=60_000))
    for _ in range(2):
        run = lab.start("--cores", "1", lab.weights(pack))
        os.kill(_holder_while_training(lab, run, pack), signal.SIGTERM)
        assert _steps(lab.finish(run, succeeds=False).output) > 0, "stopped before its first step"
    lab.snakemake("--cores", "1", lab.weights(pack))
    found = {path: (lab / path).read_bytes() for path in (lab.weights(pack), lab.curves(pack))}
    assert not (lab / lab.weights(pack)).with_suffix(".unfinished").exists()
    lab.snakemake("--cores", "1", "--force", lab.weights(pack))
    assert found == {path: (lab / path).read_bytes() for path in found}


def _steps(output):
    """After how many steps the job stopped."""
    return int(output.split(" after ")[1].split(" of ")[0].replace(",", ""))


def _holder_while_training(lab, run, pack):
    """The process of the training job, a second after it has begun to listen for signals."""
    lock = lab / f"{lab.curves(pack)}.lock"
    deadline = time.monotonic() + PATIENCE_S
    while not _listens(holder := SoftFileLease(lock).pid):
        assert run.poll() is None, run.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(1)
    return holder


def _listens(process):
    """Whether a process has a handler of its own for SIGTERM."""
    status = Path(f"/proc/{process}/status")
    caught = int(status.read_text().split("SigCgt:")[1].split()[0], 16) if status.exists() else 0
    return bool(caught >> (signal.SIGTERM - 1) & 1)
