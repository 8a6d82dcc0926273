"""What a cluster does to jobs: the run ends by itself, or one command goes on; nothing is lost.

Each test does one fault to the training of the first pack, and compares all results with those of a
run that nothing disturbed.
"""

from __future__ import annotations

import functools
import os
import signal
import time
from pathlib import Path

import pytest
from filelock import SoftFileLease

from tests.workflow.cluster.slurm import until

pytestmark = [pytest.mark.workflow, pytest.mark.cluster]

PATIENCE_S = 240
QUICKLY = ("--slurm-init-seconds-before-status-checks", "2")


@pytest.fixture
def training(fresh, slurm, submit):
    """Start a run and wait until its first training computes: (run, job of Slurm, process)."""

    def start(*arguments, **environment):
        make_slow(fresh)
        run = submit(*arguments, **environment)
        return run, *training_job(fresh, slurm, run)

    return start


@pytest.fixture(scope="module")
def undisturbed(sources, tmp_path_factory):
    """What a run gives that nothing disturbs, of networks that train for a while."""
    lab = sources.copy(tmp_path_factory.mktemp("undisturbed") / "lab")
    make_slow(lab)
    run = lab.start("--cores", "1")

    @functools.cache
    def results():
        lab.finish(run)
        return lab.results()

    yield results
    lab.stop()


def make_slow(lab):
    lab.rewrite_grid(lambda grid: grid["scales"]["demo"]["training"].update(iterations=20_000))


def training_job(lab, slurm, run):
    """The job and the process that train the first pack, once it steps."""
    lock = SoftFileLease(lab / f"{lab.curves(lab.PACKS[0])}.lock")
    lab.wait(run, lambda: _computes(lock.pid), PATIENCE_S)
    pid = lock.pid
    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    [job] = [e.partition(b"=")[2].decode() for e in environment if e.startswith(b"SLURM_JOB_ID=")]
    return job, pid


def _computes(process):
    """Whether a training listens for signals, which it does while it steps."""
    status = Path(f"/proc/{process}/status")
    caught = int(status.read_text().split("SigCgt:")[1].split()[0], 16) if status.exists() else 0
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def state_of(slurm, job):
    return slurm("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()


def test_a_killed_process_is_tried_again(fresh, training, undisturbed):
    run, _, process = training()
    os.kill(process, signal.SIGKILL)
    fresh.finish(run)
    assert fresh.results() == undisturbed()


def test_a_cancelled_job_is_tried_again(fresh, slurm, training, undisturbed):
    run, job, _ = training()
    slurm("scancel", job)
    fresh.finish(run)
    assert state_of(slurm, job) == "CANCELLED"
    assert fresh.results() == undisturbed()


def test_a_job_over_its_memory_is_given_more(fresh, slurm, submit, undisturbed):
    """300 MB are too little for torch; the third attempt has 27 times as much."""
    make_slow(fresh)
    fresh.finish(submit("--set-resources", "train:mem_mb=300 * attempt ** 3"))
    logs = [path.read_text() for path in (fresh / "logs/slurm/rule_train").rglob("*.log")]
    assert len(logs) > len(fresh.PACKS)
    assert sum("exceeded memory limit" in log for log in logs) >= len(fresh.PACKS)
    assert fresh.results() == undisturbed()


def test_a_job_over_its_time_is_given_more_and_goes_on(fresh, slurm, training, undisturbed):
    run, job, process = training("--set-resources", "train:runtime=attempt ** 4")
    os.kill(process, signal.SIGSTOP)  # until the minute is over
    fresh.finish(run)
    assert state_of(slurm, job) == "TIMEOUT"
    assert fresh.results() == undisturbed()


def test_a_controller_that_is_down_is_waited_for(fresh, slurm, training, undisturbed):
    run, _, _ = training()
    slurm.kill("slurmctld", signal.SIGKILL)
    time.sleep(30)
    slurm.start_controller()
    fresh.finish(run)
    assert fresh.results() == undisturbed()


def test_a_controller_that_stays_down_ends_the_run(fresh, slurm, training, undisturbed):
    run, *_ = training(FLATLAB_SLURM_PATIENCE_S="20")
    slurm.kill("slurmctld", signal.SIGKILL)
    try:
        output = fresh.finish(run, succeeds=False).output
    finally:
        slurm.start_controller()
    assert "jobs continue; asking again later" in output
    assert "When Slurm answers again: profiles/slurm/resume" in output
    resume(fresh)
    assert fresh.results() == undisturbed()


def test_a_job_whose_node_is_lost_starts_on_another(fresh, slurm, training, undisturbed):
    run, job, _ = training()
    node = slurm("squeue", "-h", "-j", job, "-o", "%N").strip()
    slurm.kill(f"slurmd-{node}", signal.SIGKILL)
    for lost in of_job(job):
        os.kill(lost, signal.SIGKILL)
    until(lambda: state_of(slurm, job) == "PENDING", "the job is not queued again", 90)
    slurm("scontrol", "update", f"jobid={job}", "starttime=now")  # Slurm waits for two minutes
    try:
        fresh.finish(run)
    finally:
        slurm.start_node(node)
    assert fresh.results() == undisturbed()


def of_job(job):
    """All processes of a job on this machine, its step daemons first."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if command.startswith(f"slurmstepd: [{job}."):
            found.insert(0, int(folder.name))
        elif f"SLURM_JOB_ID={job}".encode() in environment:
            found.append(int(folder.name))
    return found


def test_a_killed_snakemake_is_resumed_by_one_command(fresh, slurm, training, undisturbed):
    run, job, _ = training()
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    assert state_of(slurm, job) == "RUNNING"  # an orphan
    resume(fresh)
    assert state_of(slurm, job) in ("CANCELLED", "FAILED")
    assert fresh.results() == undisturbed()


def test_a_job_waits_for_the_orphan_that_makes_its_output(
    fresh, slurm, training, submit, undisturbed
):
    """Unlocked by hand, while a job of the killed Snakemake still runs."""
    run, orphan, process = training()
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    os.kill(process, signal.SIGSTOP)  # so that no clock decides
    fresh.snakemake("--unlock")
    second = submit()
    log = "another process is making this file"
    logs = fresh / "logs/slurm"
    until(lambda: any(log in path.read_text() for path in logs.rglob("*.log")), "nobody waits", 120)
    assert state_of(slurm, orphan) == "RUNNING"
    os.kill(process, signal.SIGCONT)
    fresh.finish(second)
    assert fresh.results() == undisturbed()


def resume(lab):
    """The one command."""
    return lab.finish(lab.start_command("profiles/slurm/resume", *QUICKLY))
