"""Days of a laboratory: delete, damage, edit; and publish, then edit what is published.

Each step starts from what the one before has left. Which of all jobs an edit re-runs is asked in
cache/test_exact_cache.py, by their params; here Snakemake runs them, and effects arrive.
"""

import json
import re
import shutil

import pytest

from tests.workflow.lab import Lab

pytestmark = pytest.mark.workflow

FIGURE = "flatlab/lab/figures/matrix.py"
DECLARATION = "papers/chen2026/figures.py"
FAMILY = "flatlab/families/geometry/__init__.py"
TRAINING = "flatlab/lab/train/minibatches.py"
MODEL = "flatlab/networks/mlp.py"

A_FAMILY = '''
"""A family of one quantity."""
import numpy as np

from flatlab.measuring.quantity import Measured, Quantity

CHECKS = ()
QUANTITIES = {"l1_norm": Quantity("sum of absolute weights", "1", "this test")}

def measure(model, samples, settings):
    total = sum(float(p.abs().sum()) for p in model.parameters())
    return Measured({"l1_norm": np.array(total)})
'''
OTHERS = (
    "FIGURES['figH8'] = Matrix('mlp-grid', quantities=('mls', 'l1_norm'), "
    "title='others', caption='Others.', size_inches=(4.0, 4.0))"
)
ANEW = "CLAIMS['figH8'] = {'c1': dataclasses.replace(CLAIMS['figH8']['c1'], text='anew')}"


def test_a_day_of_a_laboratory(lab):
    before = lab.results()
    words_and_a_deleted_file_re_run_nothing(lab)
    a_damaged_file_is_named_and_made_again(lab, before)
    edits_arrive_and_re_run_what_they_affect(lab, before)


@pytest.mark.more
def test_a_day_after_publishing(lab):
    table = what_is_published_is_drawn_without_training(lab)
    claims_and_figures_follow(lab, table)


@pytest.mark.more
def test_an_edit_of_the_training_changes_the_weights(lab):
    before = lab.results()
    lab.append(TRAINING, "DATA_STREAM += 1")
    lab.plans_exactly(*lab.jobs_from_training(*lab.PACKS))
    weights = lab.weights(lab.PACKS[0])
    assert lab.snakemake("--cores", "1", weights).jobs == [f"train {lab.PACKS[0]}"]
    assert (lab / weights).read_bytes() != before[weights]


def words_and_a_deleted_file_re_run_nothing(lab):
    """An edited figure is drawn. A metric file is not missed, since its table holds what it held.

    The same rule lets metric files from another machine be adopted without their weights.
    """
    (lab / lab.metrics("geometry", lab.PACKS[0])).unlink()
    change_words(lab)
    lab.append(FIGURE, "labels.in_lines = 'so: {}'.format")
    lab.plans_exactly("draw figH8", "all")


def a_damaged_file_is_named_and_made_again(lab, before):
    """Its size and date are as before, so that nothing but the content can show it."""
    lab.damage(Lab.TABLE)
    failed = lab.snakemake("--cores", "2", succeeds=False)
    assert f"{Lab.TABLE} is damaged" in failed.output
    drawn = {name for name in before if "/figures/" in name}
    assert not drawn & lab.results().keys(), "a figure was drawn from damage"
    deleted = f"measure geometry {lab.PACKS[0]}"  # which is needed now
    assert lab.snakemake("--cores", "2", *failed.remedy).jobs == [deleted, "table"]
    assert lab.results() == {name: before[name] for name in before if name not in drawn}


def edits_arrive_and_re_run_what_they_affect(lab, before):
    """The CSV shows that the jobs run this copy's code: two quantities, here and before."""
    header = before[f"{lab.FIGURE}.csv"].decode().splitlines()[0].split(",")
    assert len(header) == len(["row", "name", "setting"]) + 2
    lab.append(DECLARATION, OTHERS)
    lab.append(FAMILY, "QUANTITIES.pop('samples_measured')")
    (lab / "flatlab/families/l1_norm.py").write_text(A_FAMILY)
    lab.rewrite_grid(lambda grid: grid["measure"]["families"].append("l1-norm"))
    measured = [
        f"measure {family} {pack}" for family in ("geometry", "l1-norm") for pack in lab.PACKS
    ]
    assert lab.snakemake("--cores", "2").jobs == sorted([*measured, *lab.ANALYSIS])
    after = lab.results()
    assert after[f"{lab.FIGURE}.csv"].decode().splitlines()[0] == "row,name,setting,mls,l1_norm"
    assert b"so: " in after[f"{lab.FIGURE}.svg"]
    for quantity, was_there in ((b"samples_measured", True), (b"l1_norm", False)):
        assert (quantity in before[lab.TABLE]) == was_there
        assert (quantity in after[lab.TABLE]) != was_there


def change_words(lab):
    """Comments, docstrings and layout: of a figure, a family, the training, a model and a grid."""
    for path in (FIGURE, DECLARATION, FAMILY, TRAINING, MODEL):
        text = (lab / path).read_text()
        edited = re.sub(r'^( *)"""(?=\S)', r'\1"""In other words: ', text, flags=re.MULTILINE)
        assert edited.count("In other words") >= (1 if path == DECLARATION else 2)
        (lab / path).write_text(edited.replace("\n\n", "\n\n# A remark.\n\n"))
    lab.append(lab.GRID, "# A remark.")


def what_is_published_is_drawn_without_training(lab):
    published, redrawn = lab / "results/published/demo", lab / "results/redrawn/demo"
    lab.finish(lab.start("publish", program="flatlab"))
    names = [f"figures/chen2026/figH8.{ending}" for ending in ("png", "csv", "txt")]
    names.append("verdicts/chen2026/figH8.json")
    results = {name: (published / name).read_bytes() for name in names}
    there = {path.relative_to(published).as_posix() for path in published.rglob("*.*")}
    records = {"benchmarks.json", "provenance.json"}
    assert there == {*names, *records, "tables/mlp-grid.zarr.zip"}
    shutil.rmtree(lab / "results/demo")
    run = lab.snakemake("--cores", "1", "published")
    assert run.jobs == sorted(["published", "recorrelate", "redraw figH8", "reverify figH8"])
    assert "other code" not in run.output
    assert {name: (redrawn / name).read_bytes() for name in names} == results
    return (published / "tables/mlp-grid.zarr.zip").read_bytes()


def claims_and_figures_follow(lab, table):
    """What is published follows an edit of a claim and of a figure; its table stays."""
    published = lab / "results/published/demo"
    caption = (published / "figures/chen2026/figH8.txt").read_bytes()
    lab.append("papers/chen2026/claims.py", f"import dataclasses\n{ANEW}")
    path = lab / DECLARATION
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
    assert (published / "figures/chen2026/figH8.txt").read_bytes() != caption
    assert (published / "tables/mlp-grid.zarr.zip").read_bytes() == table
    assert not (lab / "results/demo/models").exists()
    assert not lab.snakemake("--cores", "1", "published").jobs
