"""What is recorded beside published results, and whether it is of this version's code."""

import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from flatlab.cli import main
from flatlab.core import store
from flatlab.lab import plan
from flatlab.lab.figures import render as drawing
from flatlab.lab.jobs import forecast
from flatlab.lab.tables.networks import Networks
from tests.lab.publish.made_up import FIGURES, PUBLISHED, ROOT, chosen
from tools.prove_equal.proof import record

OF_PROJECT = ROOT / "results/published"
TABLES = sorted(
    path for path in OF_PROJECT.glob("*/tables/*.zarr.zip") if "correlations" not in path.name
)


def outdated():
    return list(plan.outdated(chosen().experiment))


@pytest.fixture
def rewrite(published):
    """Change the record of published tables."""

    def change(made):
        path = PUBLISHED / "provenance.json"
        content = json.loads(path.read_text())
        made(content)
        store.save_json(path, content)

    return change


def test_the_record_names_the_code_of_every_stage_and_of_what_others_trained(published):
    made = json.loads((PUBLISHED / "provenance.json").read_text())
    experiments = chosen().experiments
    mlp, zoo, trained = map(chosen().experiment, ("mlp-grid", "vision-zoo", "vision-grid"))
    assert made["mlp-grid"]["code"] == mlp.code()
    assert made["vision-zoo"]["code"] == {**zoo.code(), "train": trained.code()["train"]}
    assert made["vision-zoo"]["jobs"] == len(zoo.packs) + len(trained.packs)
    assert made["mlp-grid"]["jobs"] == 2 * len(mlp.packs)
    assert made["representativeness"]["code"] == experiments["representativeness"].code()
    assert not outdated()


@pytest.mark.parametrize(
    ("key", "stage"),
    [("mlp-grid", "train"), ("vision-zoo", "train"), ("representativeness", "representativeness")],
)
def test_other_code_is_one_line_for_each_scale(key, stage, rewrite):
    rewrite(lambda made: made[key]["code"].update({stage: ["0"]}))
    [line] = outdated()
    assert line.startswith("results/published/demo was made with other code")
    assert line.endswith(f": {key}")


def test_records_of_other_stages_count_as_other_code_and_those_of_none_do_not(rewrite):
    rewrite(lambda made: made["representativeness"].update(code={"study": ["0"]}))
    rewrite(lambda made: made["vision-zoo"].update(code={"survey": ["0"]}))
    rewrite(lambda made: made["mlp-grid"]["code"].update(train=[]))
    [line] = outdated()
    assert line.endswith(": representativeness, vision-zoo")


def test_an_optional_family_of_no_published_network_is_no_other_code(rewrite):
    *_, last = chosen().experiments["vgg-grid"].families
    rewrite(lambda made: made["vgg-grid"]["code"].pop(last))
    [line] = outdated()
    assert line.endswith(": vgg-grid")

    def with_optional(key, scale):
        experiment = chosen().experiment(key, scale)
        return replace(experiment, optional=[last]) if key == "vgg-grid" else experiment

    assert not list(plan.outdated(with_optional))


def test_tables_follow_proofs_from_code_to_code_of_their_own_stage(rewrite):
    def prove(old, new, stage="train"):
        record([{"stage": stage, "old": old, "new": new}])

    [now] = chosen().experiments["mlp-grid"].code()["train"]
    rewrite(lambda made: made["mlp-grid"]["code"].update(train=["first"]))
    prove("first", "second")
    assert outdated()
    prove("second", now, "accuracy+geometry")
    prove(now, "second")
    assert outdated()
    prove("second", now)
    assert not outdated()
    assert len(json.loads(plan.PROOFS.read_text())) == 4


def test_an_experiment_that_is_gone_is_a_sentence_until_its_table_is_removed(rewrite):
    table = PUBLISHED / "tables/former.zarr.zip"
    rewrite(lambda made: made.update(former={"code": {}}))
    store.replace(table, b"")
    said = "results/published/demo has tables of experiments that no longer exist: former"
    assert outdated() == [said]
    table.unlink()
    assert not outdated()


def test_a_figure_whose_tables_are_not_published_is_named_and_not_drawn_again(published):
    assert plan.published_figures("demo") == FIGURES
    (PUBLISHED / "tables/representativeness.zarr.zip").unlink()
    others = [each for each in FIGURES if "representativeness" not in each.experiments]
    assert plan.published_figures("demo") == others
    said = "results/published/demo lacks tables that these figures show: petzka2021_fig4"
    assert outdated() == [said]


@pytest.mark.parametrize("path", TABLES, ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_every_published_table_says_what_it_holds(path):
    table = store.load_dataset(path)
    about = table.attrs
    assert (about["experiment"], about["scale"]) == (path.name.split(".")[0], path.parts[-3])
    assert (about["evidence"] == "own") == (about["differs"] == [])
    text = drawing.about(table)
    reduced, stand_in = "; reduced from the paper's ", "; they stand in for "
    assert {"own": "", "reduced": reduced, "stand-in": stand_in}[about["evidence"]] in text
    assert ("paper's" in text) == (about["evidence"] != "own")
    if "diverged" in table.coords:
        diverged, slow = int(table["diverged"].sum()), about.get("not_converged", 0)
        assert text.startswith(f"{table.sizes['run'] - diverged} ")
        lost = {"diverged or did not fit": diverged - slow, "did not converge": slow}
        for reason, count in lost.items():
            assert (f"{count} left out ({reason})" in text) == (count > 0)


@pytest.mark.parametrize("scale", ["demo", "short", "paper"])
def test_every_network_that_was_timed_is_one_of_its_scale_today(scale):
    """So that `flatlab estimate` finds what is published, under today's labels."""
    experiments = plan.Plan({"scale": scale}).experiments.values()
    labels = {label for each in experiments if each.kind == "grid" for label in each.networks}
    records = store.load_json(OF_PROJECT / scale / forecast.PUBLISHED)
    times = forecast.from_records(records)
    timed = {network for _, network, *_ in times if network}
    assert timed
    assert timed <= labels
    seconds = sum(record["seconds"] for record in records)
    assert sum(seconds for seconds, _, _ in times.values()) == pytest.approx(seconds)


def test_published_weights_give_the_row_of_their_table(monkeypatch, tmp_path):
    if not Path(os.environ.get("FLATLAB_DATA", ""), "fashion-mnist").is_dir():
        pytest.skip("FLATLAB_DATA does not name a folder with Fashion-MNIST")
    monkeypatch.chdir(OF_PROJECT / "paper/networks")
    monkeypatch.setattr(sys, "path", [*sys.path])
    command = re.findall("flatlab (measure .*)", Path("perceptron.py").read_text())[0].split()
    made = str(tmp_path / "report.zarr.zip")
    assert main([*command, "--out", made]) == 0
    table = store.load_dataset("../tables/mlp-grid.zarr.zip").isel(checkpoint=-1, samples=0)
    report, row = store.load_dataset(made), table.sel(run=Path(command[1]).stem)
    for name in {*report} & {*row}:
        np.testing.assert_allclose(report[name].values, row[name].values, 1e-6, err_msg=name)


def test_every_figure_finds_in_tables_of_the_demo_what_it_draws():
    """`make papers` ends with all of them; no other test builds them all."""
    paths = {path.name.split(".")[0]: path for path in TABLES if path.parts[-3] == "demo"}
    tables = {key: store.load_dataset(path) for key, path in paths.items()}
    figures = [each for each in plan.figures() if tables.keys() >= set(each.experiments)]
    assert len(figures) > 70
    for figure in figures:
        networks = [Networks.of(key, tables[key]) for key in figure.correlated]
        found = {each.key: each.correlation_matrices(each.quantities) for each in networks}
        drawing.frame_of(figure.settings, {key: tables[key] for key in figure.experiments}, found)
