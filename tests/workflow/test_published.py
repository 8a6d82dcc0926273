"""What is published or kept is drawn again without training."""

from __future__ import annotations

import shutil

import pytest

pytestmark = pytest.mark.workflow


def test_published_figures_are_drawn_again_from_their_tables(lab):
    published = lab / "results/published/demo"
    lab.finish(lab.start("publish", program="flatlab"))
    figures = {path.name: path.read_bytes() for path in (published / "figures").rglob("figH8.*")}
    assert set(figures) == {f"figH8.{ending}" for ending in ("pdf", "png", "csv")}
    readme = (lab / "README.md").read_text()
    assert "results/published/demo/figures/chen2026/figH8.png" in readme
    assert "| chen2026_figH8 (demo) |" in readme
    shutil.rmtree(lab / "results/demo")
    run = lab.snakemake("--cores", "1", "published")
    assert run.jobs == ["published", "redraw figH8"]
    assert "other code" not in run.output
    redrawn = lab / "results/redrawn/demo/chen2026"
    for name, content in figures.items():
        assert (redrawn / name).read_bytes() == content, name
    assert not (lab / "results/demo/models").exists()
    # What computes the numbers has changed since: said, and drawn all the same.
    lab.append("flatlab/metrics/accuracy.py", "CHANGED = 1")
    output = lab.snakemake("--cores", "1", "--force", "published").output
    [line] = [line for line in output.splitlines() if "other code" in line]
    assert line.startswith("results/published/demo was made with other code")
    assert line.endswith(": mlp-grid")


def test_nothing_is_published_where_nothing_is_built(fresh):
    run = fresh.finish(fresh.start("publish", program="flatlab"), succeeds=False)
    assert "nothing is built at scale demo; run snakemake first" in run.output
    assert not (fresh / "results/published").exists()


@pytest.mark.long
def test_an_edit_is_published_by_the_names_of_what_it_changed(lab):
    lab.finish(lab.start("publish", program="flatlab"))
    published = lab / "results/published/demo"
    before = {path: path.read_bytes() for path in published.rglob("*") if path.is_file()}
    lab.rewrite_grid(lambda grid: grid["measure"]["samples"]["train"].update(size=6))
    lab.snakemake("--cores", "2")
    run = lab.finish(lab.start("publish", "mlp-grid", program="flatlab"), succeeds=False)
    assert "publish these as well: chen2026_figH8" in run.output
    assert {path: path.read_bytes() for path in before} == before
    lab.finish(lab.start("publish", "mlp-grid", "chen2026_figH8", program="flatlab"))
    table = published / "tables/mlp-grid.zarr.zip"
    assert table.read_bytes() == (lab / lab.TABLE).read_bytes() != before[table]


def test_kept_metric_files_are_drawn_without_training(lab):
    """test_standalone.py runs what is planned here, from metric files of the same bytes."""
    place = lab / "results/demo/metrics"
    files = {path: path.read_bytes() for path in place.rglob("*.zarr.zip")}
    lab.finish(lab.start("keep", "mlp-grid", program="flatlab"))
    shutil.rmtree(lab / "results/demo")
    lab.finish(lab.start("keep", "--restore", "mlp-grid", program="flatlab"))
    assert {path: path.read_bytes() for path in place.rglob("*.zarr.zip")} == files
    lab.plans_exactly(*lab.ANALYSIS, targets=("--config", "packs=measured"))
