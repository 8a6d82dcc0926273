"""Packs trained and measured without Snakemake are those of the workflow."""

from __future__ import annotations

import shutil

import pytest

pytestmark = pytest.mark.workflow


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


def test_what_is_there_is_not_made_again_unless_code_or_settings_changed(lab):
    pack, other = lab.PACKS

    def files_made(*arguments):
        before = {path: path.stat().st_mtime_ns for path in (lab / "results").rglob("*")}
        run = lab.finish(lab.start("run", "mlp-grid", pack, *arguments, program="flatlab"))
        after = {path: path.stat().st_mtime_ns for path in (lab / "results").rglob("*")}
        changed = {path.name for path in after if after[path] != before.get(path)}
        return run, {name for name in changed if name.startswith("lr") and "proven" not in name}

    run, made = files_made()
    assert not made
    assert run.output.count("up to date") == 4  # data, weights, two families
    _, made = files_made("--force", "--family", "accuracy")
    trained = {f"{pack}{end}" for end in (".safetensors", ".dense.safetensors", ".curves.zarr.zip")}
    assert made == trained | {f"{pack}.zarr.zip"}
    lab.rewrite_grid(lambda grid: grid["training"].update(momentum=0.5))
    _, made = files_made()
    assert trained <= made
    assert not [name for name in made if name.startswith(other)]
    lab.append("flatlab/metrics/accuracy.py", "CHANGED = 1")
    run, made = files_made()
    assert made == {f"{pack}.zarr.zip"}
    measured = [line for line in run.output.splitlines() if line.startswith("measure: ")]
    assert [("/accuracy/" in line, line.endswith("up to date")) for line in sorted(measured)] == [
        (True, False),
        (False, True),
    ]
