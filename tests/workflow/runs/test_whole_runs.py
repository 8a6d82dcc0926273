"""A run in which a part comes from elsewhere: measured packs, or another data set."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

pytestmark = [pytest.mark.workflow, pytest.mark.more]


def test_packs_that_are_measured_make_figures_by_themselves(fresh, completed):
    """A grid of which one pack was trained and kept elsewhere: figures say how much is missing."""
    measured, _ = fresh.PACKS
    run = fresh.snakemake("--dry-run", "--config", "packs=measured", succeeds=False)
    assert "packs: no figure has a measured pack at scale demo; `all` trains them" in run.output
    for family in fresh.FAMILIES:
        path = fresh / fresh.metrics(family, measured)
        path.parent.mkdir(parents=True)
        shutil.copy2(completed / fresh.metrics(family, measured), path)
    fresh.finish(fresh.start("keep", "mlp-grid", program="flatlab"))
    shutil.rmtree(fresh / "results/demo")
    fresh.finish(fresh.start("keep", "--restore", "mlp-grid", program="flatlab"))
    # The data are made anew; that is no reason to train on them what was measured elsewhere.
    data = "results/demo/data/digits.zarr.zip"
    run = fresh.snakemake("all", data, "--cores", "2", "--config", "packs=measured")
    assert run.jobs == sorted([*fresh.ANALYSIS, "prepare digits"])
    assert "at the end of training, 2 networks left out" in run.output
    verdicts = json.loads((fresh / "results/demo/verdicts/chen2026/figH8.json").read_text())
    assert verdicts["tables"]["mlp-grid"]["left_out"] == 2
    assert "2 more not trained" in (fresh / f"{fresh.FIGURE}.txt").read_text()


def test_measured_packs_of_a_paper_that_is_not_configured_are_drawn(completed):
    """Those of others are no reason to refuse its figures."""
    other = ("packs=measured", "papers=[petzka2021]")
    run = completed.snakemake("--dry-run", "--config", *other, succeeds=False)
    assert "`all` trains them; papers that have one: chen2026" in run.output
    run = completed.snakemake("chen2026_figH8", "--dry-run", "--config", *other)
    assert "unknown target" not in run.output


def _shorten(grid):
    """One network, measured by one job."""
    grid["settings"] = grid["settings"][1:]
    grid["measure"]["families"] = ["accuracy+geometry"]


@pytest.mark.long
def test_a_data_set_stands_in_for_another(fresh):
    """Images by class, in the data folder, in the place of those that the grid names."""
    generator = np.random.default_rng(0)
    for number, split in enumerate(("train", "train", "train", "test")):
        for label in range(10):
            image = generator.integers(0, 255, (32, 32, 3)).astype(np.uint8)
            path = fresh / f"images/cifar10-jpeg/{split}/{label}/{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(path)
    fresh.rewrite_grid(_shorten)
    options = ["stand_ins={digits: cifar10-jpeg}", "data_folder=images"]
    verdicts = "results/demo/verdicts/chen2026/figH8.json"
    run = fresh.snakemake(verdicts, "--cores", "2", "--config", *options)
    assert "prepare cifar10-jpeg" in run.jobs
    verdicts = json.loads((fresh / verdicts).read_text())
    about = verdicts["tables"]["mlp-grid"]
    assert about["data"] == "cifar10-jpeg"
    assert about["stands_in_for"] == "mlp on fashion-mnist"
