"""Publishing replaces what it is given alone, and never parts a figure from its tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from flatlab.cli import main
from flatlab.lab import publish as publication
from tests.lab.publish.made_up import (
    EXPERIMENTS,
    FIGURES,
    PUBLISHED,
    RECORDS,
    changed_since,
    chosen,
    compute,
    draw,
    make_table,
    names_of,
    snapshot,
    tables_of,
)


def test_without_names_all_that_is_built_is_published(built):
    files = publication.publish(chosen())
    expected = names_of(*(each.target for each in FIGURES)) | tables_of(*EXPERIMENTS) | RECORDS
    assert {path.relative_to(PUBLISHED).as_posix() for path in files} == expected
    there = {path.relative_to(PUBLISHED) for path in PUBLISHED.rglob("*") if path.is_file()}
    assert {path.as_posix() for path in there} == expected
    for name in expected - RECORDS:
        assert (PUBLISHED / name).read_bytes() == Path("results/demo", name).read_bytes()


def test_publishing_twice_changes_nothing(published):
    before = snapshot()
    publication.publish(chosen())
    assert not changed_since(before)


def test_what_is_given_is_replaced_and_nothing_else(published, capsys):
    before = snapshot()
    for key in EXPERIMENTS:
        make_table(key, value=1.0)
        compute(key, seconds=3.0)
    draw(*(each.target for each in FIGURES), content=b"anew")
    names = ["representativeness", "petzka2021_fig3"]
    assert main(["publish", *names]) == 0
    assert "7 files" in capsys.readouterr().out
    expected = names_of("petzka2021_fig3") | tables_of("representativeness") | RECORDS
    assert changed_since(before) == expected - {
        "verdicts/petzka2021/fig3.json"
    }  # the same as it was
    made = json.loads((PUBLISHED / "provenance.json").read_text())
    was = json.loads(before[f"{PUBLISHED}/provenance.json"])
    assert {key for key in made if made[key] != was[key]} == {"representativeness"}
    assert made["representativeness"]["runtime_s"] == 3
    rows = json.loads((PUBLISHED / "benchmarks.json").read_text())
    before_rows = json.loads(before[f"{PUBLISHED}/benchmarks.json"])
    [row] = [row for row in rows if row not in before_rows]
    assert (row["kind"], row["seconds"]) == ("representativeness demo", 3.0)
    assert len(rows) == len(before_rows)


def test_a_paper_is_those_of_its_figures_that_are_built(built):
    shutil.rmtree("results/demo/figures/chen2026")
    draw("chen2026_figH8")
    publication.publish(chosen(), ["mlp-grid", "chen2026"])
    there = {p.relative_to(PUBLISHED).as_posix() for p in PUBLISHED.rglob("*") if p.is_file()}
    assert there == names_of("chen2026_figH8") | tables_of("mlp-grid") | RECORDS


def test_a_figure_that_shows_nothing_is_left_out_and_named(built, capsys):
    Path("results/demo/figures/chen2026/figH8.csv").write_text("quantity\n")
    assert main(["publish"]) == 0
    assert "show nothing, left out: chen2026_figH8\n" in capsys.readouterr().out
    there = {p.relative_to(PUBLISHED).as_posix() for p in PUBLISHED.rglob("*") if p.is_file()}
    others = [each.target for each in FIGURES if each.target != "chen2026_figH8"]
    assert there == names_of(*others) | tables_of(*EXPERIMENTS) | RECORDS
    publication.publish(chosen(), ["chen2026"])
    assert not (PUBLISHED / "figures/chen2026/figH8.png").exists()
    assert main(["publish", "chen2026_figH8"]) == 1
    assert "chen2026_figH8 shows nothing at scale demo" in capsys.readouterr().err


def test_figures_of_other_papers_than_the_configured_ones_are_published(built):
    publication.publish(chosen(papers=["chen2024"]), ["representativeness", "petzka2021"])
    assert (PUBLISHED / "figures/petzka2021/fig3.png").is_file()


def test_an_experiment_whose_table_did_not_change_needs_no_figure(published):
    before = snapshot()
    compute("mlp-grid", seconds=9.0)
    publication.publish(chosen(), ["mlp-grid"])
    assert changed_since(before) == RECORDS


def test_a_figure_needs_no_table_that_is_published_as_it_is(published):
    before = snapshot()
    draw("chen2024_fig1", content=b"anew")
    publication.publish(chosen(), ["chen2024_fig1"])
    pictures = {f"figures/chen2024/fig1.{ending}" for ending in ("pdf", "png", "csv")}
    assert changed_since(before) == pictures
