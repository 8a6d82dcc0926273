"""What is published is drawn again from its tables, without training."""

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
    assert "mlp-grid was made with other code of accuracy; this version may compute" in output


def test_nothing_is_published_where_nothing_is_built(fresh):
    run = fresh.finish(fresh.start("publish", program="flatlab"), succeeds=False)
    assert "nothing is built at scale demo; run snakemake first" in run.output
    assert not (fresh / "results/published").exists()
