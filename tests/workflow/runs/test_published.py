"""What is published or kept is computed anew without training."""

import json
import shutil

import pytest

pytestmark = pytest.mark.workflow


ANEW = ("published", "recorrelate", "redraw figH8", "reverify figH8")


def test_published_tables_are_drawn_anew_and_follow_a_claim_and_a_figure_without_training(lab):
    published, redrawn = lab / "results/published/demo", lab / "results/redrawn/demo"
    lab.finish(lab.start("publish", program="flatlab"))
    names = [f"figures/chen2026/figH8.{ending}" for ending in ("pdf", "png", "csv")]
    names.append("verdicts/chen2026/figH8.json")
    results = {name: (published / name).read_bytes() for name in names}
    there = {path.relative_to(published).as_posix() for path in published.rglob("*.*")}
    records = {"benchmarks.json", "provenance.json"}
    assert there == {*names, *records, "tables/mlp-grid.zarr.zip"}
    table = (published / "tables/mlp-grid.zarr.zip").read_bytes()
    shutil.rmtree(lab / "results/demo")
    run = lab.snakemake("--cores", "1", "published")
    assert run.jobs == sorted(ANEW)
    assert "other code" not in run.output
    assert {name: (redrawn / name).read_bytes() for name in names} == results

    claims = "CLAIMS['figH8'] = {'c1': dataclasses.replace(CLAIMS['figH8']['c1'], text='anew')}"
    lab.append("papers/chen2026/claims.py", f"import dataclasses\n{claims}")
    path = lab / "papers/chen2026/figures.py"
    path.write_text(path.read_text().replace("two quantities", "two of them"))
    run = lab.finish(lab.start("publish", "--again", program="flatlab"), succeeds=False)
    assert "make them with: snakemake published" in run.output
    # What computes the numbers has changed since: said, and drawn all the same.
    lab.append("flatlab/families/accuracy.py", "CHANGED = 1")
    run = lab.snakemake("--cores", "1", "published")
    assert run.jobs == ["published", "redraw figH8", "reverify figH8"]
    [line] = [line for line in run.output.splitlines() if "other code" in line]
    assert line.startswith("results/published/demo was made with other code")
    assert line.endswith(": mlp-grid")
    compared = lab.finish(lab.start("compare", "results/redrawn/demo", program="flatlab"))
    assert "claims only in B" in compared.output
    lab.finish(lab.start("publish", "--again", program="flatlab"))
    verdicts = json.loads((published / "verdicts/chen2026/figH8.json").read_text())
    assert [claim["text"] for claim in verdicts["claims"]] == ["anew"]
    assert (published / "figures/chen2026/figH8.pdf").read_bytes() != results[names[0]]
    assert (published / "tables/mlp-grid.zarr.zip").read_bytes() == table
    assert not (lab / "results/demo/models").exists()
    assert not lab.snakemake("--cores", "1", "published").jobs


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
