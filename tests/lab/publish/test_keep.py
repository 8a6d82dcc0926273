"""Metric files of finished packs go under version control, and come back from there."""

import gzip
import shutil
from pathlib import Path

import pytest

from flatlab.cli import main
from flatlab.lab import plan
from tests.lab.publish.made_up import OTHER, PACK, chosen, files, measure

BUILT = Path("results/demo/metrics/mlp-grid")
KEPT = Path("results/published/demo/metrics/mlp-grid")


@pytest.fixture
def grid(published):
    """A grid of which two packs are measured, one of them with the record of its job."""
    Path("config.yaml").write_text("packs: measured\n")  # which keeping has no need of
    grid = chosen().experiment("mlp-grid")
    [family] = grid.families
    for record in {*BUILT.rglob("*.json")} - {plan.record_of(grid.metrics(PACK, family))}:
        record.unlink()
    return grid


def decompressed(folder):
    return {
        name.removesuffix(".gz"): gzip.decompress(content) if name.endswith(".gz") else content
        for name, content in files(folder).items()
    }


def test_finished_packs_are_kept_with_their_records_and_restored(grid, capsys):
    [family] = grid.families
    made = files(BUILT)
    assert main(["keep", "mlp-grid"]) == 0
    assert f"2 packs kept, 0.0 MB; git add {KEPT}" in capsys.readouterr().out
    assert decompressed(KEPT) == made
    shutil.rmtree("results/demo")
    assert main(["keep", "--restore", "mlp-grid"]) == 0
    assert "2 files restored, 0 were already there" in capsys.readouterr().out
    assert files(BUILT) == made
    assert list(chosen(packs="measured").experiment("mlp-grid").packs) == [PACK, OTHER]
    measure(grid, PACK, 5.0)  # what is there is not overwritten
    grid.metrics(OTHER, family).unlink()
    now = files(BUILT)
    assert main(["keep", "--restore", "mlp-grid"]) == 0
    assert "1 files restored, 1 were already there" in capsys.readouterr().out
    assert files(BUILT) == {**made, **now}


def test_what_a_pack_may_lack_is_kept_where_it_is_there(grid, capsys):
    at_paper = chosen().experiment("mlp-grid", "paper")
    first, second = list(at_paper.packs)[:2]
    measure(at_paper, first, 1.0)
    measure(at_paper, second, 2.0)
    at_paper.metrics(second, "representations").unlink()
    made = files("results/paper/metrics/mlp-grid")
    assert main(["keep", "mlp-grid", "--scale", "paper"]) == 0
    assert "2 packs kept" in capsys.readouterr().out
    assert decompressed("results/published/paper/metrics/mlp-grid") == made
