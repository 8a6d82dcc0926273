"""A configuration that cannot be built ends in one sentence with the file, the key, the remedy."""

import copy
import math
import shutil
from pathlib import Path

import pytest
import yaml

from flatlab.lab import plan
from tests.lab.kinds.experiments import content_of, load, sentence, written
from tests.lab.kinds.grid.grids import DELETE, GRID, changed

BAD_GRIDS = yaml.safe_load(Path(__file__).with_name("mistakes.yaml").read_text())


@pytest.mark.parametrize("name", BAD_GRIDS)
def test_a_bad_grid_names_the_file_and_the_key(name: str, tmp_path: Path) -> None:
    change = dict(BAD_GRIDS[name])
    parts = change.pop("says").split(" … ")
    [(key, value)] = change.items()
    if key == "training+":
        key, value = "training", {**GRID["training"], **value}
    path = tuple(int(part) if part.isdigit() else part for part in key.split("."))
    with pytest.raises(plan.PlanError) as error:
        load(written(tmp_path, "mlp-grid", changed(path, DELETE if value == "DELETE" else value)))
    for part in ["experiments/mlp-grid.yaml: ", *parts]:
        assert part in sentence(error)


@pytest.mark.parametrize("content", ["a: [1,", "just text", ""])
def test_a_file_that_is_no_mapping_is_refused(content: str, tmp_path: Path) -> None:
    with pytest.raises(plan.PlanError) as error:
        load(written(tmp_path, "mlp-grid", content))
    assert "experiments/mlp-grid.yaml: " in sentence(error)


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
def test_a_bad_configuration_names_the_file_and_the_key(config: object, parts: list[str]) -> None:
    with pytest.raises(plan.PlanError) as error:
        plan.Plan(config)
    for part in ["config.yaml", *parts]:
        assert part in sentence(error)


def test_a_single_paper_needs_no_list() -> None:
    one, same = (plan.Plan({"papers": given}) for given in ("chen2024", ["chen2024"]))
    assert one.figures == same.figures
    assert {figure.paper for figure in one.figures} == {"chen2024"}


def test_an_unknown_grid_gets_the_closest_match() -> None:
    with pytest.raises(plan.PlanError, match="did you mean 'mlp-grid'"):
        plan.Plan({}).experiment("mpl-grid", "demo")


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ({"low": 0.2, "high": 0.1}, "training.lr: low must not be above high"),
        ({"low": -0.2, "high": 0.1}, "training.lr.low: expected `float` > 0.0"),
        ({"low": 0.1, "hihg": 0.2}, "training.lr: object contains unknown field `hihg`"),
        ({"low": 0.1}, "training.lr.high is missing"),
        ({"low": 0.1, "high": math.inf}, "training.lr: must be finite"),
        ("fast", "allowed: number > 0 or keys low, high"),
    ],
)
def test_a_range_of_learning_rates_has_two_ends_above_zero(ends, words, tmp_path):
    grid = content_of("dln-grid")
    grid["training"]["lr"] = ends
    with pytest.raises(plan.PlanError) as error:
        load(written(tmp_path, "dln-grid", grid), "paper")
    assert words in sentence(error)


def test_a_mistake_at_another_scale_is_seen_before_anything_runs(papers):
    """Figures say what they stand in for, so that the paper's scale is needed at every other."""
    content = copy.deepcopy(GRID)
    content["scales"]["demo"]["training"]["momentum"] = 0.0
    content["training"]["momentum"] = -1
    written(papers / "chen2026", "mlp-grid", content)
    with pytest.raises(plan.PlanError) as error:
        plan.Plan({"scale": "demo"})
    assert "training.momentum" in sentence(error)


def test_records_that_cannot_be_written_are_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan.check_records()
    assert [path.name for path in Path(".snakemake").rglob("*")] == ["locks"]
    shutil.rmtree(".snakemake")
    Path(".snakemake").write_text("")
    with pytest.raises(plan.PlanError, match=r"\.snakemake cannot be written to \(Not a dir"):
        plan.check_records()
