"""Grids: weights along the training, networks that start from others, and many of them."""

import shutil
import sys
from functools import partial

import pytest
import yaml

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


TABLE = "results/demo/tables/tuned-grid.zarr.zip"


def _add_grid(lab):
    """tuned-grid: two runs on three digits, from one run of mlp-grid, which knows all ten."""
    content = yaml.safe_load((lab / lab.GRID).read_text())
    content["settings"] = content["settings"][1:]
    content["data"]["classes"] = [0, 1, 2]
    start = {"grid": "mlp-grid", "setting": "lr0.05-b20", "seed": 1, "anew": ["fc4"]}
    content["training"]["start"] = start
    options = ("singular_values", "relative_flatness_loss", "costly")
    content["measure"] = {k: v for k, v in content["measure"].items() if k not in options}
    content["measure"]["families"] = ["accuracy"]
    content["scales"]["demo"]["measure"] = {}
    path = lab / "papers/chen2026/experiments/tuned-grid.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))


@pytest.mark.long
def test_it_trains_the_networks_that_it_starts_from_and_follows_their_changes(lab, tmp_path):
    _add_grid(lab)
    lab.runs_exactly(
        *(f"{rule} lr0.1-b20-s0-1" for rule in ("train tuned-grid", "measure tuned-grid accuracy")),
        "table tuned-grid",
        targets=(TABLE,),
    )
    lab.has_nothing_to_do(TABLE)
    by_snakemake = (lab / TABLE).read_bytes()
    shutil.rmtree(lab / "results")
    lab.finish(lab.start("run", "tuned-grid", program="flatlab"))
    lab.snakemake("--touch", TABLE)
    lab.snakemake("--cores", "1", TABLE)
    assert (lab / TABLE).read_bytes() == by_snakemake
    lab.append("flatlab/lab/train/optimizers/sgd.py", "CHANGED = 1")
    jobs = lab.snakemake("--dry-run", TABLE).jobs
    assert "train lr0.05-b20-s0-1" in jobs
    assert "train tuned-grid lr0.1-b20-s0-1" in jobs
    assert "train lr0.1-b20-s0-1" not in jobs


WATCH = """
import resource, subprocess, sys
subprocess.run([sys.executable, *sys.argv[1:]], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


@pytest.mark.long
def test_ten_thousand_networks_in_a_thousand_jobs_are_planned_in_seconds(fresh):
    def enlarge(grid):
        grid["settings"] = [{"lr": (1 + n) / 1000, "batch_size": 20} for n in range(500)]
        grid["seeds"] = ["0-19"]
        grid["measure"]["families"] = ["geometry"]
        del grid["measure"]["generalization_gap"]  # an option of another family

    fresh.rewrite_grid(enlarge)
    watched = fresh.start_command(sys.executable, "-c", WATCH, "-m", "snakemake", "--dry-run")
    run = fresh.finish(watched)
    assert sum(job.startswith(("train", "measure")) for job in run.jobs) == 1000
    seconds, kilobytes = map(float, run.output.split()[-2:])
    assert seconds < 20  # of processor time, which other work on the machine does not change
    assert kilobytes < 2**20
