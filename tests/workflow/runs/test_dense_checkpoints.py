"""Weights along the training: kept beside those of the end, measured, and in the table."""

from functools import partial

import pytest

from flatlab.core import store

pytestmark = [pytest.mark.workflow, pytest.mark.more]

STEPS = [0, 30, 100]


def _record_the_first_seed(grid, seeds=(0, 1)):
    """Blocks of one seed each, of which one is kept densely; measured by one job each."""
    grid["settings"] = grid["settings"][1:]
    grid["seeds"] = [*seeds]
    grid["measure"]["families"] = ["accuracy+geometry"]
    grid["checkpoints"] = {"dense": STEPS, "seeds": [0]}


def test_dense_checkpoints_are_measured_and_stand_in_the_table(fresh):
    fresh.rewrite_grid(_record_the_first_seed)
    run = fresh.snakemake("--cores", "2", fresh.TABLE)
    assert "of dense checkpoints, kept" in run.output
    arrays, about = store.load_weights(fresh / fresh.weights("lr0.1-b20-s0"))
    dense, about_dense = store.load_weights(fresh / _dense(fresh, "lr0.1-b20-s0"))
    assert (about["iterations"], about_dense["iterations"]) == ([100], STEPS)
    for name, array in arrays.items():
        assert (dense[name][:, -1] == array[:, 0]).all(), name
    assert store.load_weights(fresh / _dense(fresh, "lr0.1-b20-s1"))[0] == {}
    table = store.load_dataset(fresh / fresh.TABLE)
    assert table["checkpoint"].values.tolist() == STEPS
    sharpness = table["sharpness"].sel(samples="train").transpose("run", "checkpoint")
    for run, seed in zip(table["run"].values, table["seed"].values, strict=True):
        missing = sharpness.sel(run=run).isnull().values.tolist()
        assert missing == ([False] * 3 if seed == 0 else [True, True, False])
    assert table["steps"].values.tolist() == [100] * 2
    fresh.has_nothing_to_do(fresh.TABLE)


@pytest.mark.long
def test_dense_checkpoints_beyond_the_budget_go_when_they_are_measured(fresh):
    fresh.rewrite_grid(partial(_record_the_first_seed, seeds=[0]))
    fresh.append("flatlab/lab/kinds/grid.py", "BUDGET_BYTES = 1")
    run = fresh.snakemake("--cores", "2", fresh.TABLE)
    assert "deleted when measured" in run.output
    assert (fresh / fresh.weights("lr0.1-b20-s0")).exists()
    assert not (fresh / _dense(fresh, "lr0.1-b20-s0")).exists()
    assert store.load_dataset(fresh / fresh.TABLE).sizes["checkpoint"] == 3
    fresh.has_nothing_to_do(fresh.TABLE)
    # A later change to a family trains again.
    fresh.append("flatlab/families/accuracy.py", "CHANGED = 1")
    jobs = fresh.snakemake("--dry-run").jobs
    assert "train_large lr0.1-b20-s0" in jobs
    assert "measure accuracy+geometry lr0.1-b20-s0" in jobs


def _dense(lab, pack):
    return lab.weights(pack).replace(".safetensors", ".dense.safetensors")
