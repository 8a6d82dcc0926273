"""What is published or kept is computed anew without training."""

import shutil

import pytest

pytestmark = [pytest.mark.workflow, pytest.mark.more]


def test_nothing_is_published_where_nothing_is_built(fresh):
    run = fresh.finish(fresh.start("publish", program="flatlab"), succeeds=False)
    assert "nothing is built at scale demo; run snakemake first" in run.output
    assert not (fresh / "results/published").exists()


def test_kept_metric_files_are_drawn_without_training(lab):
    """test_standalone.py runs what is planned here, from metric files of the same bytes."""
    place = lab / "results/demo/metrics"
    files = {path: path.read_bytes() for path in place.rglob("*.zarr.zip")}
    lab.finish(lab.start("keep", "mlp-grid", program="flatlab"))
    shutil.rmtree(lab / "results/demo")
    lab.finish(lab.start("keep", "--restore", "mlp-grid", program="flatlab"))
    assert {path: path.read_bytes() for path in place.rglob("*.zarr.zip")} == files
    lab.plans_exactly(*lab.ANALYSIS, targets=("--config", "packs=measured"))
