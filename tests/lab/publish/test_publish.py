"""Publishing replaces what it is given alone, and never parts a figure from its tables."""

import json
import shutil
from pathlib import Path

import pytest
import xarray as xr

from flatlab.cli import main
from flatlab.core import store
from flatlab.lab import plan
from flatlab.lab.publish import publish as publishing
from flatlab.lab.publish.publish import BUDGET_BYTES, publish, publish_redrawn
from tests.lab.publish.made_up import (
    EXPERIMENTS,
    PUBLISHED,
    RECORDS,
    TARGETS,
    changed_since,
    chosen,
    compute,
    draw,
    draw_anew,
    make_table,
    names_of,
    snapshot,
    tables_of,
    write,
)

REDRAWN = "results/redrawn/demo"


def there():
    return {p.relative_to(PUBLISHED).as_posix() for p in PUBLISHED.rglob("*") if p.is_file()}


def rows():
    return json.loads((PUBLISHED / "benchmarks.json").read_text())


def test_what_is_built_is_published_and_then_what_is_named_is_replaced(built, capsys):
    files = publish(chosen())
    expected = names_of(*TARGETS) | tables_of(*EXPERIMENTS) | RECORDS
    assert {path.relative_to(PUBLISHED).as_posix() for path in files} == there() == expected
    for name in expected - RECORDS:
        assert (PUBLISHED / name).read_bytes() == Path("results/demo", name).read_bytes()
    before = snapshot()
    publish(chosen())
    assert not changed_since(before)

    # A table that is the same needs no figure; times of other experiments and devices stay.
    elsewhere = {**rows()[0], "device": "cuda", "seconds": 99.0}
    store.save_json(PUBLISHED / "benchmarks.json", [*rows(), elsewhere])
    before, former = snapshot(), rows()
    compute("mlp-grid", seconds=7.0)
    publish(chosen(), ["mlp-grid"])
    assert changed_since(before) == RECORDS
    assert elsewhere in rows()
    assert {row["network"] for row in rows() if row not in former} == {"mlp (width 64)"}

    # Nor does a figure need a table that is published as it is.
    before = snapshot()
    draw("chen2024_fig1", content=b"anew")
    publish(chosen(), ["chen2024_fig1"])
    assert changed_since(before) == names_of("chen2024_fig1") - {"verdicts/chen2024/fig1.json"}

    before, former = snapshot(), rows()
    made = json.loads((PUBLISHED / "provenance.json").read_text())
    make_table(*EXPERIMENTS, value=1.0)
    compute(*EXPERIMENTS, seconds=3.0)
    draw(*TARGETS, content=b"anew", verdict="fails")
    assert main(["publish", "representativeness", "petzka2021_fig3"]) == 0
    assert "7 files" in capsys.readouterr().out
    expected = names_of("petzka2021_fig3") | tables_of("representativeness") | RECORDS
    assert changed_since(before) == expected
    now = json.loads((PUBLISHED / "provenance.json").read_text())
    assert {key for key in now if now[key] != made[key]} == {"representativeness"}
    assert now["representativeness"]["runtime_s"] == 3
    [row] = [row for row in rows() if row not in former]
    assert (row["kind"], row["seconds"]) == ("representativeness demo", 3.0)
    assert len(rows()) == len(former)


def test_a_paper_is_those_of_its_figures_that_are_built_and_show_something(built, capsys):
    Path("results/demo/figures/chen2026/figH8.csv").write_text("quantity\n")
    assert main(["publish"]) == 0
    assert "show nothing, left out: chen2026_figH8\n" in capsys.readouterr().out
    others = [target for target in TARGETS if target != "chen2026_figH8"]
    assert there() == names_of(*others) | tables_of(*EXPERIMENTS) | RECORDS
    assert main(["publish", "chen2026_figH8"]) == 1
    assert "chen2026_figH8 shows nothing at scale demo" in capsys.readouterr().err
    shutil.rmtree(PUBLISHED)
    publish(chosen(), ["chen2026", "lenet-grid"])
    assert there() == names_of("chen2026_figH9") | tables_of("lenet-grid") | RECORDS
    shutil.rmtree("results/demo/figures/chen2026")
    draw("chen2026_figH8")
    publish(chosen(), ["mlp-grid", "chen2026"])
    assert names_of("chen2026_figH8") < there()
    publish(chosen(papers=["chen2024"]), ["representativeness", "petzka2021"])
    assert names_of("petzka2021_fig3") < there(), "though config.yaml names another paper"


TABLE = "results/demo/tables/mlp-grid.zarr.zip"
UNLIKE = "the published table of mlp-grid is not the one of chen2026_figH8; publish this as well: "
FORMER = "published figures show the former table of mlp-grid; publish these as well: "
OF_LENETS = (
    "the published table of lenet-grid is not the one of chen2024_fig1; "
    "publish this as well: lenet-grid"
)


def no_table():
    Path(TABLE).unlink()


def other_table():
    make_table("mlp-grid", value=1.0)


def other_tables():
    make_table("mlp-grid", "lenet-grid", value=1.0)


@pytest.mark.parametrize(
    ("spoil", "names", "sentences"),
    [
        (
            lambda: shutil.rmtree("results/demo"),
            [],
            ["nothing is built at scale demo; run snakemake"],
        ),
        (
            lambda: None,
            ["mlp-gird"],
            ["'mlp-gird' is no experiment, figure or paper; did you mean 'mlp-grid'? `flatlab"],
        ),
        (no_table, ["mlp-grid"], [f"{TABLE} does not exist; build it with: snakemake {TABLE}"]),
        (
            lambda: Path("results/demo/figures/chen2026/figH8.csv").unlink(),
            ["chen2026_figH8"],
            ["chen2026_figH8 is not built at scale demo; build it with: snakemake chen2026_figH8"],
        ),
        (
            lambda: shutil.rmtree("results/demo/verdicts/chen2026"),
            ["chen2026"],
            ["chen2026 is not built at scale demo; build it with: snakemake chen2026"],
        ),
        (lambda: shutil.rmtree(PUBLISHED), ["chen2026_figH8"], [f"{UNLIKE}mlp-grid"]),
        (other_table, ["chen2026_figH8"], [f"{UNLIKE}mlp-grid"]),
        (
            no_table,
            ["chen2026_figH8"],
            [f"chen2026_figH8 was drawn from {TABLE}, which is gone; build it with: snakemake"],
        ),
        (
            other_tables,
            ["chen2026_figH8", "chen2024"],
            [
                "the published table of mlp-grid is not the one of chen2026_figH8, chen2024_fig1; "
                "publish this as well: mlp-grid",
                OF_LENETS,
            ],
        ),
        (other_table, ["mlp-grid"], [f"{FORMER}chen2026_figH8 chen2024_fig1\n"]),
        (other_table, ["mlp-grid", "chen2026"], [f"{FORMER}chen2024_fig1\n"]),
        (other_tables, ["mlp-grid", "chen2026_figH8", "chen2024_fig1"], [OF_LENETS]),
    ],
)
def test_what_does_not_fit_is_refused_with_what_to_add(spoil, names, sentences, published, capsys):
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
    assert BUDGET_BYTES == 75e6
    write("results/published/paper/metrics/mlp-grid/geometry/a.zarr.zip", bytes(50_000))
    size = sum(path.stat().st_size for path in Path("results/published").rglob("*.*"))
    monkeypatch.setattr(publishing, "BUDGET_BYTES", size)
    publish(chosen())  # replaces as much as it brings
    draw("chen2026_figH8", content=bytes(10_000))
    before = snapshot()
    assert main(["publish", "chen2026_figH8"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "more than the 0 MB that a repository should carry" in error
    assert "paper/metrics/mlp-grid 0.1 MB, demo/figures/chen2026 0.0 MB" in error
    assert not changed_since(before)


@pytest.mark.parametrize("number", [0, 3, 12])
def test_a_full_disk_leaves_all_as_it_was(number, published, monkeypatch):
    make_table(*EXPERIMENTS, value=1.0)
    draw(*TARGETS, content=b"anew")
    before, calls, replace = snapshot(), [], store.replace

    def full(path, content):
        calls.append(path)
        if len(calls) > number:
            raise store.StoreError("the disk is full")
        replace(path, content)

    monkeypatch.setattr(store, "replace", full)
    with pytest.raises(store.StoreError, match="disk is full"):
        publish(chosen())
    assert not changed_since(before)


@pytest.fixture
def redrawn(published):
    """Everything published, and computed anew."""
    draw_anew(*TARGETS)


def test_figures_and_verdicts_are_published_again_and_nothing_else(redrawn, capsys):
    shutil.rmtree("results/demo")
    for path in PUBLISHED.glob("verdicts/*/*.json"):
        path.write_text("{}")  # of another version
    before = snapshot()
    assert main(["publish", "--again"]) == 0
    assert f"{4 * len(TARGETS)} files" in capsys.readouterr().out
    assert changed_since(before) == names_of(*TARGETS)
    for name in names_of("chen2026_figH8"):
        assert (PUBLISHED / name).read_bytes() == Path(REDRAWN, name).read_bytes()


def test_all_scales_are_published_again_or_one_and_no_new_figure(redrawn):
    short = Path("results/published/short")
    shutil.copytree(PUBLISHED, short)
    draw_anew("chen2024_fig1", place=short, redrawn="results/redrawn/short")
    before = snapshot()
    with pytest.raises(store.StoreError, match="results/redrawn/short"):
        publish_redrawn()
    assert not changed_since(before)
    assert len(publish_redrawn("demo")) == 4 * len(TARGETS)
    for name in names_of(*TARGETS) - names_of("chen2024_fig1"):
        (short / name).unlink()
    assert len(publish_redrawn()) == 4 * len(TARGETS) + 4
    assert {*publish_redrawn("short")} == {short / name for name in names_of("chen2024_fig1")}
    for name in names_of("petzka2021_fig3"):
        (PUBLISHED / name).unlink()
    shutil.rmtree(f"{REDRAWN}/verdicts/petzka2021")
    publish_redrawn()
    assert not (PUBLISHED / "figures/petzka2021/fig3.pdf").exists()


def other(**changes):
    """Another record of a file."""

    def spoil(path):
        record = plan.record_of(path)
        store.save_json(record, store.load_json(record) | changes)

    return spoil


MATRIX = "tables/lenet-grid.correlations.zarr.zip"


@pytest.mark.parametrize(
    ("spoil", "file", "count", "first"),
    [
        (Path.unlink, "figures/chen2026/figH9.csv", 1, ""),
        (lambda path: plan.record_of(path).unlink(), "figures/chen2026/figH9.csv", 1, ""),
        (lambda _: make_table("lenet-grid", value=1.0, place=PUBLISHED), MATRIX, 9, ""),
        (
            lambda path: store.save_dataset(path, xr.Dataset({"rho": 0.6})),
            *(MATRIX, 3, "figures/chen2026/figH9.pdf"),
        ),
        (other(code="0"), MATRIX, 1, ""),
        (other(code="0"), "verdicts/chen2026/figH9.json", 1, ""),
        (other(code="0"), "figures/chen2026/figH9.png", 1, ""),
        (other(settings={"title": "former"}), "figures/chen2026/figH9.pdf", 1, ""),
    ],
)
def test_what_is_not_made_from_the_published_tables_by_this_code_is_refused(
    spoil, file, count, first, redrawn, capsys
):
    spoil(Path(REDRAWN, file))
    before = snapshot()
    assert main(["publish", "--again"]) == 1
    error = capsys.readouterr().err
    said = f"flatlab: {count} files, the first of them {REDRAWN}/{first or file}, are "
    assert error.startswith(said)
    assert "make them with: snakemake published" in error
    assert error.count("\n") == 1
    assert not changed_since(before)


def test_again_is_for_what_is_published(published, capsys):
    assert main(["publish", "--again", "--scale", "short"]) == 1
    assert "no figure is published at scale short; publish first" in capsys.readouterr().err
    assert main(["publish", "--again", "chen2026"]) == 1
    assert "--again takes no names" in capsys.readouterr().err
