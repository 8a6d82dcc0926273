"""The workflow on a real Slurm gives what it gives on one machine."""

from __future__ import annotations

import re

import pytest

from tests.workflow import small_study
from tests.workflow.lab import ROOT

pytestmark = [pytest.mark.workflow, pytest.mark.cluster]


def test_a_grid_on_slurm_gives_the_bytes_of_a_local_run(fresh, slurm, submit, completed):
    """From sbatch to figures: two partitions, a GPU for each training, light rules where we are."""
    run = fresh.finish(submit())
    assert run.jobs == sorted(["prepare digits", *fresh.jobs_from_training(*fresh.PACKS)])
    assert fresh.results() == completed.results()
    submitted = slurm("squeue", "-h", "-t", "all", "-o", "%i %P %T %Z").splitlines()
    ours = [line.split() for line in submitted if line.endswith(str(fresh.folder))]
    assert sorted(partition for _, partition, *_ in ours) == ["cpu"] + 6 * ["gpu"]
    assert {state for _, _, state, _ in ours} == {"COMPLETED"}
    for number, partition, *_ in ours:
        gpus = re.search(r"TresPerJob=gres:gpu:1\b", slurm("scontrol", "show", "job", number))
        assert bool(gpus) == (partition == "gpu")
    assert set(re.findall(r"^localrule (\w+)", run.output, re.M)) == {
        *("prepare", "table", "draw", "verify", "score", "all")
    }
    logs = [path.stem for path in (fresh / "logs/slurm").rglob("*.log")]
    assert sorted(logs) == sorted(number for number, *_ in ours)
    fresh.has_nothing_to_do()
    fresh.has_nothing_to_do("--workflow-profile", "profiles/slurm")


def test_a_study_on_slurm_gives_the_bytes_of_a_local_run(slurm, submit_from, tmp_path):
    """Runs of a loop of its own, and networks in files: a job and a GPU for each."""
    here = small_study.built(tmp_path / "here/mine", "[0]")
    there = small_study.unbuilt(here, tmp_path / "there/mine")
    tables = map(small_study.table, small_study.KEYS)
    run = there.finish(
        submit_from(there, "build", *tables, program="flatlab", PYTHONPATH=str(ROOT))
    )
    assert there.results() == here.results()
    rules = [job.split()[0] for job in run.jobs]
    assert rules == 4 * ["measure"] + 2 * ["table"] + 2 * ["train_one"]
    submitted = slurm("squeue", "-h", "-t", "all", "-o", "%i %P %T %Z").splitlines()
    ours = [line.split() for line in submitted if line.endswith(str(there.folder))]
    assert [(partition, state) for _, partition, state, _ in ours] == 6 * [("gpu", "COMPLETED")]
    for number, *_ in ours:
        assert re.search(r"TresPerJob=gres:gpu:1\b", slurm("scontrol", "show", "job", number))
