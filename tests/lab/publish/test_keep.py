"""Metric files of finished packs go under version control, and come back from there."""

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from flatlab.cli import main
from flatlab.core import store
from flatlab.lab.publish import publish
from tests.lab.publish.made_up import chosen, use_made_up

PACK, OTHER, THIRD = "lr0.1-b20-s0-4", "lr0.1-b20-s5-19", "lr0.05-b20-s0-4"
BUILT = Path("results/demo/metrics/mlp-grid")
KEPT = Path("results/published/demo/metrics/mlp-grid")


@pytest.fixture
def grid(template, tmp_path, monkeypatch):
    """A grid of which two packs are measured, one of them with the record of its job."""
    use_made_up(monkeypatch, template / "papers")
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text("packs: measured\n")  # which keeping has no need of
    grid = chosen().experiment("mlp-grid")
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
    paths = (path for path in Path(folder).rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def decompressed(found):
    return {
        name.removesuffix(".gz"): gzip.decompress(content) if name.endswith(".gz") else content
        for name, content in found.items()
    }


def test_finished_packs_are_kept_with_their_records_and_restored(grid, capsys):
    [family] = grid.families
    assert main(["keep", "mlp-grid", OTHER]) == 0
    assert set(files(KEPT)) == {f"{family}/{OTHER}.zarr.zip.gz"}
    made = files(BUILT)
    assert main(["keep", "mlp-grid"]) == 0
    assert f"2 packs kept, 0.0 MB; git add {KEPT}" in capsys.readouterr().out
    assert decompressed(files(KEPT)) == made
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
    assert decompressed(files("results/published/paper/metrics/mlp-grid")) == made
    at_paper.metrics(second, "geometry").unlink()
    assert main(["keep", "mlp-grid", second, "--scale", "paper"]) == 1
    assert "geometry" in capsys.readouterr().err


def damage(folder, name):
    [path] = Path(folder).rglob(name)
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


def damaged_copy():
    main(["keep", "mlp-grid"])
    damage(KEPT, f"{OTHER}.zarr.zip.gz")
    shutil.rmtree("results/demo")


@pytest.mark.parametrize(
    ("arguments", "sentence", "spoil"),
    [
        (["mlp-gird"], "did you mean 'mlp-grid'?", None),
        (["mlp-grid", "lr0.1-b20-s0-5"], f"did you mean '{PACK}'?", None),
        (["--restore", "mlp-grid", "lr0.1"], "unknown pack", None),
        (["mlp-grid", PACK, THIRD], f"{THIRD}.zarr.zip does not exist", None),
        (
            ["mlp-grid"],
            "no pack of mlp-grid is measured at demo",
            lambda: shutil.rmtree("results/demo"),
        ),
        (["--restore", "mlp-grid"], "nothing of mlp-grid is kept at scale demo", None),
        (
            ["mlp-grid"],
            f"{PACK}.zarr.zip is damaged",
            lambda: damage("results/demo", f"{PACK}.zarr.zip"),
        ),
        (
            ["--restore", "mlp-grid"],
            f"{OTHER}.zarr.zip.gz is damaged; get it back with: git checkout -- {KEPT}",
            damaged_copy,
        ),
    ],
)
def test_what_cannot_be_kept_or_restored_is_a_sentence(arguments, sentence, spoil, grid, capsys):
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
    monkeypatch.setattr(publish, "BUDGET_BYTES", 100)
    assert main(["keep", "mlp-grid"]) == 1
    assert "largest are demo/metrics/mlp-grid" in capsys.readouterr().err
    assert not KEPT.exists()
