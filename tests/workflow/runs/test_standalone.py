"""Packs trained and measured without Snakemake are those of the workflow."""

import shutil

import pytest

pytestmark = [pytest.mark.workflow, pytest.mark.more]


def test_files_made_without_the_workflow_are_the_same_and_are_adopted(fresh, completed):
    run = fresh.finish(fresh.start("run", "mlp-grid", program="flatlab"))
    for pack in fresh.PACKS:
        for family in fresh.FAMILIES:
            assert fresh.metrics(family, pack) in run.output
    made, theirs = fresh.results(), completed.results()
    assert made == {name: theirs[name] for name in made}
    assert fresh.weights(fresh.PACKS[0]) in made
    # At home the metric files are enough: tables and figures are made from them.
    shutil.rmtree(fresh / "results/demo/models")
    shutil.rmtree(fresh / "results/demo/data")
    fresh.runs_exactly(*fresh.ANALYSIS)
    ours = fresh.results()
    assert not [name for name in ours if "/models/" in name or "/data/" in name]
    assert ours == {name: theirs[name] for name in ours}
    assert {fresh.TABLE, f"{fresh.FIGURE}.pdf"} <= ours.keys()
