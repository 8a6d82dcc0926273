"""Disks that are full, forbidden, odd or out of time: one sentence, nothing half-written, go on."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tests.workflow.lab import Lab

pytestmark = [pytest.mark.workflow, pytest.mark.more]


def nothing_is_half_written(lab):
    assert not [path for path in (lab / "results").rglob("*") if path.name.endswith(".part")]


WEIGHTS = [Lab.weights(Lab.PACKS[0])]
"""As far as the runs go: what comes behind the training writes its files by the same means."""
DATA = "results/demo/data/digits.zarr.zip"


def goes_on(lab, completed):
    """What was done stays, the rest is made, and all is as if nothing had happened."""
    dates = {p: p.stat().st_mtime_ns for p in (lab / "results").rglob("*.zarr.zip")}
    lab.snakemake("--cores", "2", *WEIGHTS)
    expected, found = completed.results(), lab.results()
    assert {*WEIGHTS} <= found.keys()
    assert found == {name: expected[name] for name in found}
    lab.has_nothing_to_do(*WEIGHTS)
    return [path for path, date in dates.items() if path.stat().st_mtime_ns == date]


@pytest.fixture
def small_disk(fresh):
    """A disk of 120 kB for the results, too small for weights, that can be made larger."""
    folder = fresh / "results"
    folder.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=120k", "tmpfs", str(folder)]
    if subprocess.run(mounted, capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here: that needs root")

    yield lambda size: subprocess.run(
        ["mount", "-o", f"remount,size={size}", str(folder)], check=True
    )
    fresh.stop()
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk(fresh, small_disk, completed):
    run = fresh.snakemake("--cores", "1", *WEIGHTS, succeeds=False)
    assert "the disk is full" in run.output
    nothing_is_half_written(fresh)
    small_disk("50m")
    assert goes_on(fresh, completed)


@pytest.mark.long
def test_a_file_where_a_folder_should_be_and_a_folder_that_may_not_be_written(fresh, completed):
    """One after the other. The data then get the date of a machine that is an hour ahead."""
    for path in ("results", "results/demo/models"):
        (fresh / path).parent.mkdir(parents=True, exist_ok=True)
        (fresh / path).touch()
        run = fresh.snakemake("--cores", "1", *WEIGHTS, succeeds=False)
        assert path in run.output
        assert "File exists" in run.output or "Not a directory" in run.output
        (fresh / path).unlink()
    # Root is run without its privileges, and is then a user like any other.
    ordinary = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    models = fresh / "results/demo/models/mlp-grid"
    models.mkdir(parents=True)
    (models / "somebody.txt").touch()  # Snakemake takes empty folders away
    models.chmod(0o555)
    command = [*ordinary, sys.executable, "-m", "snakemake", "--cores", "1", *WEIGHTS]
    run = fresh.finish(fresh.start_command(*command), succeeds=False)
    assert "no permission to write; change the owner" in run.output
    nothing_is_half_written(fresh)
    models.chmod(0o755)
    (models / "somebody.txt").unlink()
    later = time.time() + 3600
    os.utime(fresh / DATA, (later, later))
    goes_on(fresh, completed)  # jobs run, and are not run for ever
