"""Experiments of every kind: options of families, what jobs depend on; zoos of a grid."""

import pytest
import torch

from flatlab.core.options import options_of
from flatlab.data import load as data
from flatlab.data._tensors import prepare
from flatlab.lab import plan
from flatlab.networks import _timm as networks
from flatlab.networks import build
from tests.lab.kinds.experiments import changed, content_of, load, written


def test_a_grid_states_the_options_of_its_own_families(tmp_path):
    """One that is left out has its default; one more is a mistake."""
    measure = {"families": ["accuracy", "geometry", "hessian"], "curvature": ["hessian"]}
    content = changed("scales.demo.measure", measure)
    del content["measure"]["costly"]
    grid = load(written(tmp_path, "mlp-grid", content))
    assert grid.families == measure["families"]
    assert grid.options["geometry"]["costly"] == ["elementwise-adaptive-trace"]
    hessian = {"curvature": ["hessian"], "batch_norm": "eval", "warm_start": False}
    assert grid.options["hessian"] == hessian


def test_the_settings_of_a_job_are_those_that_it_uses(tmp_path):
    """Another rate changes its own packs alone, an option those that measure its family."""
    content = content_of("mlp-grid")
    content["settings"][0]["lr"] = 0.04
    content["measure"]["costly"] = []
    before, after = load("mlp-grid"), load(written(tmp_path, "mlp-grid", content))
    same = [pack for pack in before.packs if pack in after.packs]
    assert len(same) == 8
    for pack in same:
        assert before.training(pack) == after.training(pack)
    joined = before.families[0]
    assert before.measuring(same[0], joined) != after.measuring(same[0], joined)
    assert before.measuring(same[0], "accuracy") == after.measuring(same[0], "accuracy")


def test_a_scale_changes_what_it_names_of_a_simulation():
    paper, demo = (load("representativeness", scale) for scale in ("paper", "demo"))
    (of_paper,), (of_demo,) = (
        [each.measuring(pack, each.families[0]).settings for pack in each.packs]
        for each in (paper, demo)
    )
    assert {key for key in of_paper if of_paper[key] != of_demo[key]} == {"repeats"}


def test_every_key_is_documented():
    for kind in plan.keys_of_kinds().values():
        for keys in kind.values():
            assert all(allowed and meaning for _, allowed, meaning in keys)


def test_an_architecture_without_options_that_planning_can_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("flatlab.core.studies.PACKAGE", tmp_path)
    (tmp_path / "networks").mkdir()
    for name, code in {"plain": "", "unknown": "class Options(Module): ..."}.items():
        (tmp_path / f"networks/{name}.py").write_text(code)
    with pytest.raises(plan.PlanError, match=r"networks/plain\.py: it needs a class Options"):
        options_of("networks", "plain")
    with pytest.raises(plan.PlanError, match=r"unknown\.py: name 'Module' is not defined in the"):
        options_of("networks", "unknown")


# Zoos


def test_packs_of_a_zoo_are_all_networks_of_its_grid_once():
    zoo, grid = load("vision-zoo", "demo"), load("vision-grid", "demo")
    stages = [zoo.measuring(pack, "adaptive") for pack in zoo.packs]
    chosen = [network for stage in stages for network in stage.settings["networks"]]
    assert sorted(network["run"] for network in chosen) == sorted(grid.runs)
    assert len(grid.runs) >= 24
    architectures = {network["network"]["options"]["model"] for network in chosen}
    assert len({networks.family_of(name) for name in architectures}) >= 8
    for stage in stages:
        assert stage.code == zoo.measuring("0", "adaptive").code
        for network in stage.settings["networks"]:
            pack = stage.inputs["weights"][network["file"]].rpartition("/")[2]
            runs = grid.packs[pack.removesuffix(".safetensors")].runs
            assert network["run"] in runs


@pytest.mark.more
@pytest.mark.parametrize(("scale", "least"), [("demo", 24), ("short", 60)])
def test_every_stand_in_is_large_enough_and_can_be_built(scale, least):
    zoo, grid = load("vision-zoo", scale), load("vision-grid", scale)
    assert zoo.file.name == "local-zoo"
    assert len(grid.runs) >= least
    raw = data("digits")
    for pack in grid.packs.values():
        settings = grid.training(pack.key).settings
        splits = prepare(raw, settings["data"], None, torch.float32)
        inputs = splits.test.inputs[:2]
        assert build(settings["network"], inputs.shape[1:], 10)(inputs).shape == (2, 10)


@pytest.mark.parametrize("key", ["vit", "vit21k", "clip", "bert"])
def test_stand_ins_are_large_enough_and_say_what_they_are(key):
    zoo, published = (load(f"released-{key}-zoo", scale) for scale in ("demo", "paper"))
    assert len(zoo.grid.runs) >= 12
    radii = zoo.options["sharpness"]["sharpness_radii"]
    assert sum(map(len, radii.values())) >= 12
    assert radii == published.options["sharpness"]["sharpness_radii"]
    assert [*zoo.file.test_sets] == [*published.file.test_sets][1:]  # a grid has its own
    about = zoo.tabulating(published).settings["about"]
    assert about["evidence"] == "stand-in"
    assert zoo.file.name.startswith("small-")
