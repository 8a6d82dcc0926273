"""Experiments of every kind: products of factors, options of families, what jobs depend on."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import pytest

from flatlab.core.options import options_of
from flatlab.lab import plan
from tests.lab.kinds import experiments
from tests.lab.kinds.experiments import content_of, written

ROOT = Path(__file__).resolve().parents[3]


def load(folder: Path, key: str, content: dict, scale: str = "demo") -> plan.Experiment:
    """An experiment with this content; others that it names are those of the project."""
    return experiments.load(written(folder, key, content), scale)


def sentence_of(folder: Path, key: str, content: dict, scale: str = "demo") -> str:
    with pytest.raises(plan.PlanError) as error:
        load(folder, key, content, scale)
    text = experiments.sentence(error)
    assert text.startswith(f"experiments/{key}.yaml: ")
    return text


@pytest.fixture
def grid() -> dict:
    return content_of("mlp-grid")


FACTORS = {"lr": [0.05, 0.1], "batch_size": [8, 20, 32]}


def test_settings_are_the_product_of_factors(grid: dict, tmp_path: Path) -> None:
    """The first factor varies slowest; each combination is the setting that a list would state."""
    listed = [{"lr": lr, "batch_size": b} for lr in FACTORS["lr"] for b in FACTORS["batch_size"]]
    of_list = load(tmp_path, "mlp-grid", {**grid, "settings": listed})
    of_product = load(tmp_path, "mlp-grid", {**grid, "settings": FACTORS})
    assert of_product.packs == of_list.packs
    assert list(of_product.packs) == list(of_list.packs)
    assert len(of_product.packs) == 6 * len(grid["seeds"])


def test_combinations_are_excluded_by_what_they_contain(grid: dict, tmp_path: Path) -> None:
    excluded = [{"lr": 0.05, "batch_size": 8}, {"batch_size": 32}]
    found = load(tmp_path, "mlp-grid", {**grid, "settings": FACTORS, "exclude": excluded})
    assert {pack.setting for pack in found.packs.values()} == {
        "lr0.05-b20",
        "lr0.1-b8",
        "lr0.1-b20",
    }


def test_a_scale_may_have_other_settings(grid: dict, tmp_path: Path) -> None:
    grid["scales"]["demo"]["settings"] = {"lr": [0.1], "batch_size": [20]}
    assert {p.setting for p in load(tmp_path, "mlp-grid", grid).packs.values()} == {"lr0.1-b20"}
    assert len(load(tmp_path, "mlp-grid", grid, "paper").packs) == 15


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"settings": {"lrr": [0.1]}}, ["settings: unknown key 'lrr'", "did you mean 'lr'"]),
        ({"settings": {"lr": 0.1}}, ["settings.lr: expected a list of values, found 0.1"]),
        ({"settings": {"lr": []}}, ["settings.lr: expected a list of values"]),
        ({"settings": {"lr": [0.1, -1], "batch_size": [8]}}, ["lr", "number > 0"]),
        ({"settings": {"lr": [0.1, 0.1], "batch_size": [8]}}, ["'lr0.1-b8' is declared twice"]),
        ({"exclude": [{"lr": 0.1}]}, ["exclude: only a product of factors"]),
        ({"settings": FACTORS, "exclude": [{"lr": 0.3}]}, ["exclude[0]: no combination has"]),
        (
            {"settings": FACTORS, "exclude": [{"batchsize": 8}]},
            ["exclude[0]: unknown key 'batchsize'", "did you mean 'batch_size'"],
        ),
        ({"settings": FACTORS, "exclude": {"lr": 0.1}}, ["exclude: expected a list"]),
        ({"settings": ["lr 0.1"]}, ["settings[0]: expected keys and values, found 'lr 0.1'"]),
        ({"kind": "grids"}, ["kind: unknown 'grids'; did you mean 'grid'"]),
        ({"kind": None}, ["kind is missing; known: files, grid, loop, simulation, zoo"]),
        ({"title": None}, ["title is missing"]),
    ],
)
def test_what_cannot_be_is_one_sentence(
    changes: dict, parts: list[str], grid: dict, tmp_path: Path
) -> None:
    text = sentence_of(tmp_path, "mlp-grid", {**grid, **changes})
    for part in parts:
        assert part in text


def test_a_grid_states_the_options_of_its_own_families_and_no_others(
    grid: dict, tmp_path: Path
) -> None:
    """One more would be read by nothing; one that is left out has its default."""
    grid["measure"]["curvature"] = ["hessian"]
    text = sentence_of(tmp_path, "mlp-grid", grid)
    assert "measure: unknown key 'curvature'; did you mean" in text
    grid["scales"]["demo"]["measure"]["curvature"] = grid["measure"].pop("curvature")
    grid["scales"]["demo"]["measure"]["families"] = ["accuracy", "geometry", "hessian"]
    assert load(tmp_path, "mlp-grid", grid).families == ["accuracy", "geometry", "hessian"]
    del grid["measure"]["costly"]
    options = load(tmp_path, "mlp-grid", grid).options
    assert options["geometry"]["costly"] == ["elementwise-adaptive-trace"]
    assert options["hessian"] == {
        "curvature": ["hessian"],
        "batch_norm": "eval",
        "warm_start": False,
    }
    grid["measure"]["relative_flatness_loss"] = "half-mes"
    text = sentence_of(tmp_path, "mlp-grid", grid)
    assert "measure.relative_flatness_loss: unknown 'half-mes'; did you mean 'half-mse'" in text


def test_the_settings_of_a_job_are_those_that_it_uses(grid: dict, tmp_path: Path) -> None:
    """Another rate changes its own packs alone, an option those that measure its family."""
    before = load(tmp_path, "mlp-grid", grid)
    other = copy.deepcopy(grid)
    other["settings"][0]["lr"] = 0.04
    other["measure"]["costly"] = []
    after = load(tmp_path, "mlp-grid", other)
    same = [pack for pack in before.packs if pack in after.packs]
    assert len(same) == 8
    for pack in same:
        assert before.training(pack) == after.training(pack)
    joined = before.families[0]
    assert before.measuring(same[0], joined) != after.measuring(same[0], joined)
    assert before.measuring(same[0], "accuracy") == after.measuring(same[0], "accuracy")


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"simulation": "representativenes"}, "simulation: unknown 'representativenes'; did you"),
        ({"settings": {"repeat": 3}}, "settings: unknown key 'repeat'; did you mean 'repeats'"),
        ({"settings": {}}, "settings.separations is missing"),
        ({"settings": [3]}, "settings: expected keys and values, found [3]"),
        ({"seeds": ["0-4"]}, "unknown key 'seeds'"),
    ],
)
def test_a_bad_simulation_is_one_sentence(changes: dict, part: str, tmp_path: Path) -> None:
    content = {**content_of("representativeness"), **changes}
    assert part in sentence_of(tmp_path, "representativeness", content)


def test_a_scale_changes_what_it_names_of_a_simulation() -> None:
    paper, demo = (
        experiments.load("representativeness", scale) for scale in ("paper", "demo")
    )
    (of_paper,), (of_demo,) = (
        [each.measuring(pack, each.families[0]).settings for pack in each.packs]
        for each in (paper, demo)
    )
    changed = {key for key in of_paper if of_paper[key] != of_demo[key]}
    assert changed == {"repeats"}


def test_planning_imports_no_library_that_computes() -> None:
    """All experiments of the project are loaded, at every scale: without torch, numpy or xarray."""
    code = (
        "import sys\n"
        "from flatlab.lab import plan\n"
        "for scale in plan.SCALES:\n"
        "    plan.Plan({'scale': scale})\n"
        "print({'torch', 'numpy', 'xarray', 'pandas', 'matplotlib'} & {*sys.modules})\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "set()"


def test_an_unknown_pack_gets_the_closest_match() -> None:
    grid = experiments.load("mlp-grid")
    with pytest.raises(plan.PlanError, match=r"unknown pack .* of mlp-grid; did you"):
        grid.training("lr0.1-b20-s0-5")


def test_an_architecture_without_options_that_planning_can_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flatlab.core.studies.PACKAGE", tmp_path)
    (tmp_path / "networks").mkdir()
    for name, code in {"plain": "", "unknown": "class Options(Module): ..."}.items():
        (tmp_path / f"networks/{name}.py").write_text(code)
    with pytest.raises(plan.PlanError, match=r"networks/plain\.py: it needs a class Options"):
        options_of("networks", "plain")
    with pytest.raises(plan.PlanError, match=r"unknown\.py: name 'Module' is not defined in the"):
        options_of("networks", "unknown")
