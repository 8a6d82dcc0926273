"""A configuration that cannot be built ends in one sentence with the file, the key, the remedy."""

import shutil
from pathlib import Path

import pytest
import yaml

from flatlab.lab import plan
from tests.lab.kinds.experiments import content_of, load, set_key, written
from tests.refusals import refusal

MISTAKES = yaml.safe_load(Path(__file__).with_name("mistakes.yaml").read_text())
CASES = [(experiment, case) for experiment, cases in MISTAKES.items() for case in cases]


@pytest.mark.parametrize(("experiment", "case"), CASES)
def test_a_mistake_in_an_experiment_names_the_file_and_the_key(experiment, case, tmp_path):
    key, scale = experiment.split()
    content, changes = content_of(key), dict(MISTAKES[experiment][case])
    parts = changes.pop("says").split(" … ")
    for path, value in changes.items():
        set_key(content, path, value)
    message = refusal(plan.PlanError, load, written(tmp_path, key, content), scale)
    assert message.split(": ")[0].endswith(f"experiments/{key}.yaml")
    for part in parts:
        assert part in message


@pytest.mark.parametrize("content", ["a: [1,", "just text", ""])
def test_a_file_that_is_no_mapping_is_refused(content, tmp_path):
    message = refusal(plan.PlanError, load, written(tmp_path, "mlp-grid", content))
    assert "experiments/mlp-grid.yaml: " in message


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        ({"scale": "dmeo"}, ["scale", "unknown value 'dmeo'; did you mean 'demo'"]),
        ({"scael": "demo"}, ["unknown key 'scael'", "did you mean 'scale'"]),
        ({"papers": "chen2062"}, ["papers", "did you mean 'chen2026'"]),
        ({"papers": ["chen2062"]}, ["papers", "did you mean 'chen2026'"]),
        ({"papers": []}, ["papers"]),
        ({"device": "gpu"}, ["device", "cpu, cuda"]),
        ({"data_folder": 7}, ["data_folder", "7"]),
        (["scale"], ["expected keys and values"]),
    ],
)
def test_a_bad_configuration_names_the_file_and_the_key(config, parts):
    message = refusal(plan.PlanError, plan.Plan, config)
    for part in ["config.yaml", *parts]:
        assert part in message


def test_a_single_paper_needs_no_list():
    one, same = (plan.Plan({"papers": given}) for given in ("chen2024", ["chen2024"]))
    assert one.figures == same.figures
    assert {figure.paper for figure in one.figures} == {"chen2024"}


def test_an_unknown_experiment_or_pack_gets_the_closest_match():
    with pytest.raises(plan.PlanError, match="did you mean 'mlp-grid'"):
        plan.Plan({}).experiment("mpl-grid", "demo")
    with pytest.raises(plan.PlanError, match=r"unknown pack .* of mlp-grid; did you"):
        load("mlp-grid").training("lr0.1-b20-s0-5")


def test_a_mistake_at_another_scale_is_seen_before_anything_runs(papers):
    """Figures say what they stand in for, so that the paper's scale is needed at every other."""
    content = content_of("mlp-grid")
    content["scales"]["demo"]["training"]["momentum"] = 0.0
    content["training"]["momentum"] = -1
    written(papers / "chen2026", "mlp-grid", content)
    assert "training.momentum" in refusal(plan.PlanError, plan.Plan, {"scale": "demo"})


def test_records_that_cannot_be_written_are_one_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan.require_writable_snakemake_folder()
    assert [path.name for path in Path(".snakemake").rglob("*")] == ["locks"]
    shutil.rmtree(".snakemake")
    Path(".snakemake").write_text("")
    with pytest.raises(plan.PlanError, match=r"\.snakemake cannot be written to \(Not a dir"):
        plan.require_writable_snakemake_folder()
