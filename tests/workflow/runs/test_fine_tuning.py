"""A grid whose networks start from those of another one, by Snakemake and without it."""

import shutil

import pytest
import yaml

pytestmark = pytest.mark.workflow

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
        *(f"{rule} tuned-grid {family}lr0.1-b20-s0-1" for rule, family in JOBS),
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


JOBS = (("train", ""), ("measure", "accuracy "))
