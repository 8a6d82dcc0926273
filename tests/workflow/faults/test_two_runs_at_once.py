"""Two processes never make one file: Snakemake's lock, and beneath it the guard of each output."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import signal

import pytest
from filelock import SoftFileLease

pytestmark = [pytest.mark.workflow, pytest.mark.more]

SNAKEMAKES_LOCK = "Directory cannot be locked"


def holder_of(lab, path):
    """The process that holds the lock of an output, or None."""
    return SoftFileLease(lab / f"{path}.lock").pid


@contextlib.contextmanager
def paused_while_training(lab, run, after=None):
    """Wait until `run` trains the first pack and stop that job there, so that no clock decides.

    after: the process whose lock was there before. The lock of the last output counts: then the
    job holds them all.
    """
    path = lab.curves(lab.PACKS[0])
    lab.wait(run, lambda: holder_of(lab, path) not in (None, after))
    holder = holder_of(lab, path)
    os.kill(holder, signal.SIGSTOP)
    assert not (lab / path).exists(), "too late: the job is done"
    try:
        yield holder
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(holder, signal.SIGCONT)


def test_a_dead_run_is_taken_over_and_a_living_one_is_left_alone(lab):
    """Kill a run; start it again; try to start it once more, also after `--unlock`.

    The lock of the first outlives it, and the second takes it over, since its process is dead. The
    third is refused by Snakemake, then by the guard, and the second finishes unharmed.
    """
    before = lab.results()
    target = lab.weights(lab.PACKS[0])
    first = lab.start("--cores", "1", "--force", target)
    with paused_while_training(lab, first) as dead:
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
    assert holder_of(lab, target) == dead
    lab.snakemake("--unlock")

    second = lab.start("--cores", "1", target)
    with paused_while_training(lab, second, after=dead) as living:
        third = lab.snakemake("--cores", "1", target, succeeds=False)
        assert SNAKEMAKES_LOCK in third.output
        lab.snakemake("--unlock")
        third = lab.snakemake("--cores", "1", target, succeeds=False)
        sentence = (
            f"{target}: another process is making this file "
            rf"\(host {re.escape(platform.node())}, process {living}\); "
            "wait for it or stop it"
        )
        assert re.search(sentence, third.output), third.output
        assert holder_of(lab, target) == living
    assert lab.finish(second).jobs == [f"train {lab.PACKS[0]}"]
    lab.has_nothing_to_do()
    assert lab.results() == before
