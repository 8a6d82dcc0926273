"""An edit of a grid or of the training trains what it changes, and only that."""

import pytest

from tests.workflow.lab import Lab

pytestmark = pytest.mark.workflow


@pytest.mark.long  # which jobs an edit adds: test_exact_cache.py
def test_an_edit_of_a_grid_trains_what_it_adds_alone(lab):
    lab.rewrite_grid(lambda grid: grid["settings"][1].update(seeds=["0-1", "2-3"]))
    lab.plans_exactly(*Lab.jobs_from_training("lr0.1-b20-s2-3"))
    lab.rewrite_grid(lambda grid: grid["settings"][1].update(lr=0.2))
    lab.rewrite_grid(lambda grid: grid["seeds"].append(2))
    new = ("lr0.05-b20-s2", "lr0.2-b20-s0-1", "lr0.2-b20-s2-3")
    lab.plans_exactly(*Lab.jobs_from_training(*new))


@pytest.mark.more
def test_an_edit_of_the_training_changes_the_weights(lab):
    before = lab.results()
    lab.append("flatlab/lab/train/minibatches.py", "DATA_STREAM += 1")
    lab.plans_exactly(*lab.jobs_from_training(*lab.PACKS))
    weights = lab.weights(lab.PACKS[0])
    assert lab.snakemake("--cores", "1", weights).jobs == [f"train {lab.PACKS[0]}"]
    assert (lab / weights).read_bytes() != before[weights]
