"""What is recorded beside published results."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from flatlab.core import store
from flatlab.lab import plan
from flatlab.lab import publish as publication
from flatlab.lab.publish import forecast
from tests.lab.publish.made_up import FIGURES, OTHERS, PUBLISHED, chosen, compute, write


def test_the_record_names_the_code_of_every_stage_and_of_what_others_trained(published):
    made = json.loads((PUBLISHED / "provenance.json").read_text())
    experiments = chosen().experiments
    lenet, zoo = experiments["lenet-grid"], experiments["small-zoo"]
    assert made["lenet-grid"]["code"] == lenet.code()
    assert made["small-zoo"]["code"] == {**zoo.code(), "train": lenet.code()["train"]}
    assert made["small-zoo"]["jobs"] == len(zoo.packs) + len(lenet.packs)
    assert made["lenet-grid"]["jobs"] == 2 * len(lenet.packs)
    assert made["representativeness"]["code"] == experiments["representativeness"].code()
    assert not list(plan.outdated(chosen().experiment))


def test_times_of_other_experiments_and_devices_stay(published):
    path = PUBLISHED / forecast.PUBLISHED
    rows = json.loads(path.read_text())
    elsewhere = {**rows[0], "device": "cuda", "seconds": 99.0}
    store.save_json(path, [*rows, elsewhere])
    compute("mlp-grid", seconds=7.0)
    publication.publish(chosen(), ["mlp-grid"])
    new = json.loads(path.read_text())
    assert elsewhere in new
    networks = {row["network"] for row in new if row not in [*rows, elsewhere]}
    assert networks == {"mlp (width 64)"}


def rewrite_record(change):
    path = PUBLISHED / "provenance.json"
    made = json.loads(path.read_text())
    change(made)
    store.save_json(path, made)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("mlp-grid", {"train": ["0"]}),
        ("small-zoo", {"train": ["0"]}),
        ("representativeness", {"representativeness": ["0"]}),
    ],
)
def test_other_code_is_one_line_for_each_scale(key, code, published):
    rewrite_record(lambda made: made[key]["code"].update(code))
    [line] = plan.outdated(chosen().experiment)
    assert line.startswith("results/published/demo was made with other code")
    assert line.endswith(f": {key}")


def test_records_of_other_stages_count_as_other_code_and_those_of_none_do_not(published):
    rewrite_record(lambda made: made["representativeness"].update(code={"study": ["0"]}))
    rewrite_record(lambda made: made["small-zoo"].update(code={"survey": ["0"]}))
    rewrite_record(lambda made: made["mlp-grid"]["code"].update(train=[]))
    [line] = plan.outdated(chosen().experiment)
    assert line.endswith(": representativeness, small-zoo")


def test_an_optional_family_of_no_published_network_is_no_other_code(published):
    *_, last = chosen().experiments["lenet-grid"].families
    rewrite_record(lambda made: made["lenet-grid"]["code"].pop(last))
    [line] = plan.outdated(chosen().experiment)
    assert line.endswith(": lenet-grid")

    def with_optional(key, scale):
        experiment = chosen().experiment(key, scale)
        return replace(experiment, optional=[last]) if key == "lenet-grid" else experiment

    assert not list(plan.outdated(with_optional))


def test_an_experiment_that_is_gone_is_a_sentence_until_its_table_is_removed(published):
    table = PUBLISHED / "tables/former.zarr.zip"
    rewrite_record(lambda made: made.update(former={"code": {}}))
    write(table, b"")
    assert list(plan.outdated(chosen().experiment)) == [
        "results/published/demo has tables of experiments that no longer exist: former"
    ]
    table.unlink()
    assert not list(plan.outdated(chosen().experiment))


def test_a_figure_whose_tables_are_not_published_is_named_and_not_drawn_again(published):
    assert plan.published_figures("demo") == FIGURES
    (PUBLISHED / "tables/representativeness.zarr.zip").unlink()
    assert [each.target for each in plan.published_figures("demo")] == OTHERS
    assert list(plan.outdated(chosen().experiment)) == [
        "results/published/demo lacks tables that these figures show: petzka2021_fig3"
    ]
