"""A training job that is stopped goes on where it was, and ends with the same bytes."""

from __future__ import annotations

import os
import signal
import time

import pytest
from filelock import SoftFileLease

from flatlab.core.store import StoreError, load_weights

pytestmark = pytest.mark.workflow

STEPS = 3_000


def test_a_job_that_is_asked_to_stop_goes_on_in_the_next_run_to_the_same_bytes(lab):
    pack = lab.PACKS[0]
    lab.rewrite_grid(lambda grid: grid["scales"]["demo"]["training"].update(iterations=STEPS))
    unfinished = (lab / lab.weights(pack)).with_suffix(".unfinished")
    arguments = ("--cores", "1", lab.weights(pack))
    run = lab.start(*arguments, "--config", "save_every_s=0.1")
    lab.wait(run, lambda: _saved(unfinished / "state.safetensors"))
    os.kill(SoftFileLease(lab / f"{lab.curves(pack)}.lock").pid, signal.SIGTERM)
    asked = time.monotonic()
    stopped = lab.finish(run, succeeds=False).output
    assert time.monotonic() - asked < 10
    assert "stopped by SIGTERM after" in stopped
    assert "the next run continues from there" in stopped
    assert 0 < _steps(stopped) < STEPS
    assert (unfinished / "state.safetensors").exists()
    assert not (lab / lab.weights(pack)).exists()
    lab.snakemake(*arguments)
    found = {path: (lab / path).read_bytes() for path in (lab.weights(pack), lab.curves(pack))}
    assert not unfinished.exists()
    for path in found:
        (lab / path).unlink()
    lab.finish(lab.start("run", "mlp-grid", pack, program="flatlab"))  # without an interruption
    assert found == {path: (lab / path).read_bytes() for path in found}


def _steps(output):
    """After how many steps the job stopped."""
    return int(output.split(" after ")[1].split(" of ")[0].replace(",", ""))


def _saved(state):
    """The number of steps of a saved state; 0 where there is none."""
    try:
        return load_weights(state)[1]["iteration"]
    except StoreError:
        return 0
