"""Results do not depend on the run that makes them, and can come from elsewhere."""

from __future__ import annotations

import shutil

import pytest

pytestmark = pytest.mark.workflow


def test_another_run_on_other_cores_gives_the_same_bytes(fresh, request):
    run = fresh.snakemake("--cores", "1")
    assert run.jobs == sorted(["prepare digits", *fresh.jobs_from_training(*fresh.PACKS)])
    completed = request.getfixturevalue("completed")  # now, so that both can be made at once
    assert fresh.results() == completed.results()


def test_metric_files_from_another_machine_are_adopted(fresh, completed):
    """Without weights, data or Snakemake's records: tables and figures are made from them."""
    place = "results/demo/metrics"
    shutil.copytree(completed / place, fresh / place)
    fresh.runs_exactly(*fresh.ANALYSIS)
    theirs, ours = completed.results(), fresh.results()
    assert not [name for name in ours if "/models/" in name or "/data/" in name]
    assert ours == {name: theirs[name] for name in ours}
    assert {fresh.TABLE, f"{fresh.FIGURE}.pdf"} <= ours.keys()
