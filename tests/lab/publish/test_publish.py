"""Publishing replaces what it is given alone, and never parts a figure from its tables."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

from flatlab.cli import main
from flatlab.core import store
from flatlab.lab.publish.publish import LONGEST_CSV, publish, publish_redrawn
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
    files,
    make_table,
    names_of,
    tables_of,
)


def rows():
    return json.loads((PUBLISHED / "benchmarks.json").read_text())


def test_what_is_built_is_published_and_then_what_is_named_is_replaced(published, capsys):
    shutil.rmtree(PUBLISHED)
    paths = publish(chosen())
    expected = names_of(*TARGETS) | tables_of(*EXPERIMENTS) | RECORDS
    assert {path.relative_to(PUBLISHED).as_posix() for path in paths} == expected
    assert files(PUBLISHED).keys() == expected
    for name in expected - RECORDS:
        assert (PUBLISHED / name).read_bytes() == Path("results/demo", name).read_bytes()
    before = files()
    publish(chosen())
    assert not changed_since(before)

    # A table that is the same needs no figure; times of other experiments and devices stay, and
    # those of a size that no job has any more go with the next of the same network.
    elsewhere = {**rows()[0], "device": "cuda", "seconds": 99.0}
    odd = [{**row, "work": row["work"] * 1.5} for row in rows() if row["kind"] == "train"]
    store.save_json(PUBLISHED / "benchmarks.json", [*rows(), elsewhere, *odd])
    before, former = files(), rows()
    compute("mlp-grid", seconds=7.0)
    publish(chosen(), ["mlp-grid"])
    assert changed_since(before) == RECORDS
    assert elsewhere in rows()
    stay = [row for row in odd if row in rows()]
    assert stay == [row for row in odd if row["network"] != "mlp (width 64)"] != odd
    assert {row["network"] for row in rows() if row not in former} == {"mlp (width 64)"}

    # Nor does a figure need a table that is published as it is.
    before = files()
    draw("beyond_fig3", content=b"anew")
    publish(chosen(), ["beyond_fig3"])
    assert changed_since(before) == names_of("beyond_fig3") - {"verdicts/beyond/fig3.json"}

    before, former = files(), rows()
    made = json.loads((PUBLISHED / "provenance.json").read_text())
    make_table(*EXPERIMENTS)
    compute(*EXPERIMENTS, seconds=3.0)
    draw(*TARGETS, content=b"anew", verdict="fails")
    assert main(["publish", "representativeness", "petzka2021_fig4"]) == 0
    assert "7 files" in capsys.readouterr().out
    expected = names_of("petzka2021_fig4") | tables_of("representativeness") | RECORDS
    assert changed_since(before) == expected
    now = json.loads((PUBLISHED / "provenance.json").read_text())
    assert {key for key in now if now[key] != made[key]} == {"representativeness"}
    assert now["representativeness"]["runtime_s"] == 3
    [row] = [row for row in rows() if row not in former]
    assert (row["kind"], row["seconds"]) == ("representativeness demo", 3.0)
    assert len(rows()) == len(former)


def test_a_long_csv_is_compressed_until_it_is_short_again(published):
    drawn, csv = (Path(p, "figures/beyond/fig3.csv") for p in ("results/demo", PUBLISHED))
    drawn.write_text("quantity\n" + LONGEST_CSV * "1")
    publish(chosen(), ["beyond_fig3"])
    [packed] = csv.parent.glob("fig3.csv*")
    assert gzip.decompress(packed.read_bytes()) == drawn.read_bytes()
    drawn.write_text("quantity\n1\n")
    publish(chosen(), ["beyond_fig3"])
    assert [*csv.parent.glob("fig3.csv*")] == [csv]


def test_a_paper_is_those_of_its_figures_that_are_built_and_show_something(published, capsys):
    shutil.rmtree(PUBLISHED)
    Path("results/demo/figures/chen2026/figH8.csv").write_text("quantity\n")
    assert main(["publish"]) == 0
    assert "show nothing, left out: chen2026_figH8\n" in capsys.readouterr().out
    others = names_of(*TARGETS) - names_of("chen2026_figH8")
    assert files(PUBLISHED).keys() == others | tables_of(*EXPERIMENTS) | RECORDS
    assert main(["publish", "chen2026_figH8"]) == 1
    assert "chen2026_figH8 shows nothing at scale demo" in capsys.readouterr().err
    shutil.rmtree(PUBLISHED)
    Path("results/demo/figures/chen2026/fig5.csv").unlink()
    publish(chosen(), ["chen2026", "vgg-grid"])
    there = names_of("chen2026_figH7") | tables_of("vgg-grid") | RECORDS
    assert files(PUBLISHED).keys() == there
    # config.yaml names another paper
    publish(chosen(papers=["chen2024"]), ["representativeness", "petzka2021"])
    there |= names_of("petzka2021_fig4") | tables_of("representativeness")
    assert files(PUBLISHED).keys() == there


def test_figures_and_verdicts_are_published_again_and_nothing_else(published, capsys):
    draw_anew(*TARGETS)
    shutil.rmtree("results/demo")
    for path in PUBLISHED.glob("verdicts/*/*.json"):
        path.write_text("{}")  # of another version
    before = files()
    assert main(["publish", "--again"]) == 0
    assert f"{4 * len(TARGETS)} files" in capsys.readouterr().out
    assert changed_since(before) == names_of(*TARGETS)
    anew = files("results/redrawn/demo")
    assert {name: (PUBLISHED / name).read_bytes() for name in names_of(*TARGETS)}.items() <= (
        anew.items()
    )


def test_all_scales_are_published_again_or_one_and_no_new_figure(published):
    short = Path("results/published/short")
    shutil.copytree(PUBLISHED, short)
    draw_anew(*TARGETS)
    draw_anew("beyond_fig3", scale="short")
    before = files()
    with pytest.raises(store.StoreError, match="results/redrawn/short"):
        publish_redrawn()
    assert not changed_since(before)
    alone = publish_redrawn("demo")  # of pictures that a larger scale has, the verdicts
    assert {path.suffix for path in alone} == {".json"}
    assert len(alone) == len(TARGETS)
    for name in names_of(*TARGETS) - names_of("beyond_fig3"):
        (short / name).unlink()
    assert len(publish_redrawn()) == 4 * len(TARGETS) + 1
    assert {*publish_redrawn("short")} == {short / name for name in names_of("beyond_fig3")}
    for name in names_of("petzka2021_fig4"):
        (PUBLISHED / name).unlink()
    shutil.rmtree("results/redrawn/demo/verdicts/petzka2021")
    publish_redrawn()
    assert not (PUBLISHED / "figures/petzka2021/fig4.png").exists()
