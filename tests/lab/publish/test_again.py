"""Figures and verdicts that are computed anew from published tables are published again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import xarray as xr

from flatlab.cli import main
from flatlab.core import store
from flatlab.lab import plan
from flatlab.lab.publish.publishing import publish_redrawn
from tests.lab.publish.made_up import (
    FIGURES,
    PUBLISHED,
    changed_since,
    draw,
    figure,
    make_table,
    names_of,
    snapshot,
)

REDRAWN = "results/redrawn/demo"


def _record(path, inputs, code, settings=None):
    made = {str(each): store.hash_of(each) for each in inputs}
    store.save_json(f"{path}.provenance.json", {"code": code, "settings": settings, "inputs": made})


def compute_anew(*targets, place=PUBLISHED, redrawn=REDRAWN):
    """What `snakemake published` does, with other pictures and verdicts."""
    draw(*targets, content=b"anew", place=redrawn, verdict="fails")
    for each in map(figure, targets):
        tables = [place / f"tables/{key}.zarr.zip" for key in each.experiments]
        matrices = []
        for key in each.correlated:
            matrices.append(Path(redrawn, f"tables/{key}.correlations.zarr.zip"))
            store.save_dataset(matrices[-1], xr.Dataset({"rho": 0.5}))
            _record(matrices[-1], tables, plan.correlations_code())
        for ending in ("pdf", "png", "csv"):
            path = f"{redrawn}/figures/{each.paper}/{each.key}.{ending}"
            _record(path, [*tables, *matrices], each.code, each.settings)
        _record(
            f"{redrawn}/verdicts/{each.paper}/{each.key}.json", tables, plan.claims_code(each.paper)
        )


@pytest.fixture
def anew(published):
    """Everything published, and computed anew."""
    compute_anew(*(each.target for each in FIGURES))


def test_figures_and_verdicts_are_published_again_and_nothing_else(anew, capsys):
    shutil.rmtree("results/demo")
    for path in PUBLISHED.glob("verdicts/*/*.json"):
        path.write_text("{}")  # of another version
    before = snapshot()
    assert main(["publish", "--again"]) == 0
    assert f"{4 * len(FIGURES)} files" in capsys.readouterr().out
    assert changed_since(before) == names_of(*(each.target for each in FIGURES))
    for name in names_of("chen2026_figH8"):
        assert (PUBLISHED / name).read_bytes() == Path(REDRAWN, name).read_bytes()


def test_all_scales_are_published_again_or_one(anew):
    shutil.copytree(PUBLISHED, "results/published/short")
    compute_anew(
        "chen2024_fig1", place=Path("results/published/short"), redrawn="results/redrawn/short"
    )
    before = snapshot()
    with pytest.raises(store.StoreError, match="results/redrawn/short"):
        publish_redrawn()
    assert not changed_since(before)
    assert len(publish_redrawn("demo")) == 4 * len(FIGURES)
    for name in names_of(*(each.target for each in FIGURES)) - names_of("chen2024_fig1"):
        Path("results/published/short", name).unlink()
    assert len(publish_redrawn()) == 4 * len(FIGURES) + 4
    files = publish_redrawn("short")
    assert {str(path) for path in files} == {
        f"results/published/short/{name}" for name in names_of("chen2024_fig1")
    }


def test_a_figure_that_is_not_published_yet_does_not_matter(anew):
    for name in names_of("petzka2021_fig3"):
        (PUBLISHED / name).unlink()
    shutil.rmtree(f"{REDRAWN}/verdicts/petzka2021")
    publish_redrawn()
    assert not (PUBLISHED / "figures/petzka2021/fig3.pdf").exists()


def _unfinished():
    Path(REDRAWN, "figures/chen2026/figH9.csv").unlink()


def _unrecorded():
    Path(REDRAWN, "figures/chen2026/figH9.csv.provenance.json").unlink()


def _other_published_table():
    make_table("lenet-grid", value=1.0, place=PUBLISHED)


def _other_matrix():
    path = f"{REDRAWN}/tables/lenet-grid.correlations.zarr.zip"
    store.save_dataset(path, xr.Dataset({"rho": 0.6}))


def _with_other(file, **changes):
    path = plan.record_of(f"{REDRAWN}/{file}")
    store.save_json(path, store.load_json(path) | changes)


STALE = {
    "a missing file": (_unfinished, 1, "figures/chen2026/figH9.csv"),
    "a file without a record": (_unrecorded, 1, "figures/chen2026/figH9.csv"),
    "another table": (_other_published_table, 9, "tables/lenet-grid.correlations.zarr.zip"),
    "other correlations": (_other_matrix, 3, "figures/chen2026/figH9.pdf"),
    "correlations of other code": (
        lambda: _with_other("tables/lenet-grid.correlations.zarr.zip", code="0"),
        1,
        "tables/lenet-grid.correlations.zarr.zip",
    ),
    "verdicts of other code": (
        lambda: _with_other("verdicts/chen2026/figH9.json", code="0"),
        1,
        "verdicts/chen2026/figH9.json",
    ),
    "a figure of other code": (
        lambda: _with_other("figures/chen2026/figH9.png", code="0"),
        1,
        "figures/chen2026/figH9.png",
    ),
    "a figure of another declaration": (
        lambda: _with_other("figures/chen2026/figH9.pdf", settings={"title": "former"}),
        1,
        "figures/chen2026/figH9.pdf",
    ),
}


@pytest.mark.parametrize("case", STALE)
def test_what_is_not_made_from_the_published_tables_by_this_code_is_refused(case, anew, capsys):
    spoil, count, first = STALE[case]
    spoil()
    before = snapshot()
    assert main(["publish", "--again"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"flatlab: {count} files, the first of them {REDRAWN}/{first}, are ")
    assert "make them with: snakemake published" in error
    assert error.count("\n") == 1
    assert not changed_since(before)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--scale", "short"], "no figure is published at scale short; publish first"),
        (["chen2026"], "--again takes no names"),
    ],
)
def test_again_is_for_what_is_published(options, sentence, anew, capsys):
    assert main(["publish", "--again", *options]) == 1
    assert sentence in capsys.readouterr().err
