"""Metric files of finished packs go under version control, and come back from there."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from flatlab.cli import main
from flatlab.core import store
from flatlab.lab import plan
from flatlab.lab.publish import publishing

ROOT = Path(__file__).resolve().parents[3]
PACK, OTHER, THIRD = "lr0.1-b20-s0-4", "lr0.1-b20-s5-19", "lr0.05-b20-s0-4"
KEPT = Path("results/published/demo/metrics/mlp-grid")


@pytest.fixture
def grid(tmp_path, monkeypatch):
    """A grid of which two packs are measured, one of them with the record of its job."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "experiments", "experiments")
    Path("config.yaml").write_text("packs: measured\n")  # which keeping has no need of
    grid = plan.Plan({}, Path("experiments")).experiment("mlp-grid")
    measure(grid, PACK, 1.0)
    measure(grid, OTHER, 2.0)
    [family] = grid.families
    Path(f"{grid.metrics(PACK, family)}.provenance.json").write_text('{"code": "0"}')
    return grid


def measure(grid, pack, value):
    for family in grid.families:
        dataset = xr.Dataset({"x": ("run", np.full(3, value))})
        store.save_dataset(grid.metrics(pack, family), dataset)


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in Path(folder).rglob("*")
        if path.is_file()
    }


def decompressed(found):
    return {
        name.removesuffix(".gz"): gzip.decompress(content) if name.endswith(".gz") else content
        for name, content in found.items()
    }


def test_finished_packs_are_kept_with_their_records_and_restored(grid, capsys):
    made = files("results/demo/metrics/mlp-grid")
    assert main(["keep", "mlp-grid"]) == 0
    assert f"2 packs kept, 0.0 MB; git add {KEPT}" in capsys.readouterr().out
    assert decompressed(files(KEPT)) == made
    shutil.rmtree("results/demo")
    assert main(["keep", "--restore", "mlp-grid"]) == 0
    assert "2 files restored, 0 were already there" in capsys.readouterr().out
    assert files("results/demo/metrics/mlp-grid") == made
    measured = plan.Plan({"packs": "measured"}, Path("experiments")).experiment("mlp-grid")
    assert list(measured.packs) == [PACK, OTHER]


def test_what_a_pack_may_lack_is_kept_where_it_is_there(grid, capsys):
    at_paper = plan.Plan({}, Path("experiments")).experiment("mlp-grid", "paper")
    first, second = list(at_paper.packs)[:2]
    measure(at_paper, first, 1.0)
    measure(at_paper, second, 2.0)
    at_paper.metrics(second, "representations").unlink()
    made = files("results/paper/metrics/mlp-grid")
    assert main(["keep", "mlp-grid", "--scale", "paper"]) == 0
    assert "2 packs kept" in capsys.readouterr().out
    assert decompressed(files("results/published/paper/metrics/mlp-grid")) == made
    at_paper.metrics(second, "geometry").unlink()
    assert main(["keep", "mlp-grid", second, "--scale", "paper"]) == 1
    assert "geometry" in capsys.readouterr().err


def test_named_packs_are_kept_alone(grid):
    assert main(["keep", "mlp-grid", OTHER]) == 0
    [family] = grid.families
    assert set(files(KEPT)) == {f"{family}/{OTHER}.zarr.zip.gz"}


def test_what_is_there_is_not_overwritten(grid, capsys):
    main(["keep", "mlp-grid"])
    measure(grid, PACK, 5.0)
    [path] = [grid.metrics(OTHER, family) for family in grid.families]
    path.unlink()
    now = files("results/demo/metrics/mlp-grid")
    assert main(["keep", "--restore", "mlp-grid"]) == 0
    assert "1 files restored, 1 were already there" in capsys.readouterr().out
    after = files("results/demo/metrics/mlp-grid")
    assert {name: after[name] for name in now} == now
    assert len(after) == len(now) + 1


def _damage(path):
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


def _damaged_file():
    [path] = Path("results/demo").rglob(f"{PACK}.zarr.zip")
    _damage(path)


def _damaged_copy():
    main(["keep", "mlp-grid"])
    [path] = KEPT.rglob(f"{OTHER}.zarr.zip.gz")
    _damage(path)
    shutil.rmtree("results/demo")


def _no_metrics():
    shutil.rmtree("results/demo")


REFUSED = {
    "a misspelt experiment": (None, ["mlp-gird"], "did you mean 'mlp-grid'?"),
    "a misspelt pack": (None, ["mlp-grid", "lr0.1-b20-s0-5"], f"did you mean '{PACK}'?"),
    "a misspelt pack to restore": (None, ["--restore", "mlp-grid", "lr0.1"], "unknown pack"),
    "a pack that is not measured": (
        None,
        ["mlp-grid", PACK, THIRD],
        f"{THIRD}.zarr.zip does not exist",
    ),
    "nothing measured": (_no_metrics, ["mlp-grid"], "no pack of mlp-grid is measured at demo"),
    "nothing kept": (None, ["--restore", "mlp-grid"], "nothing of mlp-grid is kept at scale demo"),
    "a damaged file": (_damaged_file, ["mlp-grid"], f"{PACK}.zarr.zip is damaged"),
    "a damaged copy": (
        _damaged_copy,
        ["--restore", "mlp-grid"],
        f"{OTHER}.zarr.zip.gz is damaged; get it back with: git checkout -- {KEPT}",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_kept_or_restored_is_a_sentence(case, grid, capsys):
    spoil, arguments, sentence = REFUSED[case]
    if spoil:
        spoil()
    before = files("results")
    capsys.readouterr()
    assert main(["keep", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("flatlab: ")
    assert error.count("\n") == 1
    assert sentence in error
    assert files("results") == before


def test_the_budget_counts_what_is_kept(grid, monkeypatch, capsys):
    monkeypatch.setattr(publishing, "BUDGET_BYTES", 100)
    assert main(["keep", "mlp-grid"]) == 1
    assert "largest are demo/metrics/mlp-grid" in capsys.readouterr().err
    assert not KEPT.exists()
