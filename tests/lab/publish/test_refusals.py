"""What cannot be published is refused, and nothing changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flatlab.cli import main
from flatlab.core import store
from flatlab.lab import publish as publication
from flatlab.lab.publish import publishing
from tests.lab.publish.made_up import (
    EXPERIMENTS,
    FIGURES,
    PUBLISHED,
    changed_since,
    chosen,
    draw,
    make_table,
    snapshot,
    write,
)


def _unpublished_table():
    shutil.rmtree(PUBLISHED)


def _other_table():
    make_table("mlp-grid", value=1.0)


def _other_tables():
    make_table("mlp-grid", value=1.0)
    make_table("lenet-grid", value=1.0)


def _no_table():
    Path("results/demo/tables/mlp-grid.zarr.zip").unlink()


def _no_figure():
    Path("results/demo/figures/chen2026/figH8.csv").unlink()


def _no_paper():
    shutil.rmtree("results/demo/verdicts/chen2026")


def _nothing_built():
    shutil.rmtree("results/demo")


TABLE = "results/demo/tables/mlp-grid.zarr.zip"


UNLIKE = "the published table of mlp-grid is not the one of chen2026_figH8; publish this as well: "


FORMER = "published figures show the former table of mlp-grid; publish these as well: "


REFUSED = {
    "nothing is built": (_nothing_built, [], ["nothing is built at scale demo; run snakemake"]),
    "a misspelt name": (
        None,
        ["mlp-gird"],
        ["'mlp-gird' is no experiment, figure or paper; did you mean 'mlp-grid'? `flatlab"],
    ),
    "an experiment without a table": (
        _no_table,
        ["mlp-grid"],
        [f"{TABLE} does not exist; build it with: snakemake {TABLE}"],
    ),
    "a figure that is not built": (
        _no_figure,
        ["chen2026_figH8"],
        ["chen2026_figH8 is not built at scale demo; build it with: snakemake chen2026_figH8"],
    ),
    "a paper of which nothing is built": (
        _no_paper,
        ["chen2026"],
        ["chen2026 is not built at scale demo; build it with: snakemake chen2026"],
    ),
    "a figure without its table": (_unpublished_table, ["chen2026_figH8"], [f"{UNLIKE}mlp-grid"]),
    "a figure of another table": (_other_table, ["chen2026_figH8"], [f"{UNLIKE}mlp-grid"]),
    "a figure whose table is gone": (
        _no_table,
        ["chen2026_figH8"],
        [f"chen2026_figH8 was drawn from {TABLE}, which is gone; build it with: snakemake {TABLE}"],
    ),
    "two figures of other tables": (
        _other_tables,
        ["chen2026_figH8", "chen2024"],
        [
            "the published table of mlp-grid is not the one of chen2026_figH8, chen2024_fig1; "
            "publish this as well: mlp-grid",
            "the published table of lenet-grid is not the one of chen2024_fig1; "
            "publish this as well: lenet-grid",
        ],
    ),
    "a table without its figures": (
        _other_table,
        ["mlp-grid"],
        [f"{FORMER}chen2026_figH8 chen2024_fig1\n"],
    ),
    "a table with one of its figures": (
        _other_table,
        ["mlp-grid", "chen2026"],
        [f"{FORMER}chen2024_fig1\n"],
    ),
    "a table of the figure of another one": (
        _other_tables,
        ["mlp-grid", "chen2026_figH8", "chen2024_fig1"],
        [
            "the published table of lenet-grid is not the one of chen2024_fig1; "
            "publish this as well: lenet-grid"
        ],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_with_what_to_add(case, published, capsys):
    spoil, names, sentences = REFUSED[case]
    if spoil:
        spoil()
    before = snapshot()
    assert main(["publish", *names]) == 1
    error = capsys.readouterr().err
    assert error.startswith("flatlab: ")
    assert error.count("\n") == len(sentences)
    for sentence in sentences:
        assert sentence in error
    assert not changed_since(before)


def test_what_is_too_much_is_refused_with_the_largest_parts(published, monkeypatch, capsys):
    kept = Path("results/published/paper/metrics/mlp-grid/geometry/a.zarr.zip")
    write(kept, bytes(50_000))
    size = sum(path.stat().st_size for path in Path("results/published").rglob("*.*"))
    monkeypatch.setattr(publishing, "BUDGET_BYTES", size)
    publication.publish(chosen())  # replaces as much as it brings
    draw("chen2026_figH8", content=bytes(10_000))
    before = snapshot()
    assert main(["publish", "chen2026_figH8"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "more than the 0 MB that a repository should carry" in error
    assert "paper/metrics/mlp-grid 0.1 MB, demo/figures/chen2026 0.0 MB" in error
    assert not changed_since(before)


def test_the_budget_is_seventy_five_megabytes():
    assert publication.BUDGET_BYTES == 75e6


@pytest.mark.parametrize("number", [0, 3, 12])
def test_a_full_disk_leaves_all_as_it_was(number, published, monkeypatch):
    for key in EXPERIMENTS:
        make_table(key, value=1.0)
    draw(*(each.target for each in FIGURES), content=b"anew")
    before, calls, replace = snapshot(), [], store.replace

    def full(path, content):
        calls.append(path)
        if len(calls) > number:
            raise store.StoreError("the disk is full")
        replace(path, content)

    monkeypatch.setattr(store, "replace", full)
    with pytest.raises(store.StoreError, match="disk is full"):
        publication.publish(chosen())
    assert not changed_since(before)
