"""The files of zoos: their packs, what stands in for published networks, and bad ones."""

import fnmatch
import re

import pytest
import torch

from flatlab import data
from flatlab.data._tensors import prepare
from flatlab.lab import plan
from flatlab.metrics._pretrained import _hyperparameters
from flatlab.networks import _timm as networks
from flatlab.networks import build
from tests.lab.kinds.experiments import content_of, load, written


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


@pytest.mark.parametrize(("scale", "least"), [("demo", 24), ("short", 60)])
def test_every_stand_in_is_large_enough_and_can_be_built(scale, least):
    zoo, grid = load("vision-zoo", scale), load("vision-grid", scale)
    assert zoo.file.name == "local-zoo"
    assert len(grid.runs) >= least
    raw = data.load("digits")
    for pack in grid.packs.values():
        settings = grid.training(pack.key).settings
        splits = prepare(raw, settings["data"], None, torch.float32)
        inputs = splits.test.inputs[:2]
        assert build(settings["network"], inputs.shape[1:], 10)(inputs).shape == (2, 10)


def test_hyperparameters_are_read_from_the_names_of_files():
    name = "B_16-i21k-300ep-lr_0.001-aug_medium1-wd_0.03-do_0.1-sd_0.1--imagenet2012-steps_20k"
    zoo = load("released-vit21k-zoo", "paper")
    wanted = {**zoo.file.hyperparameters, "other": "x_(.)"}
    assert _hyperparameters(f"{name}-lr_0.01-res_224", wanted, None) == {
        **{"augmentation": "medium", "weight_decay": 0.03, "dropout": 0.1, "lr": 0.01},
        "other": None,
    }
    (pattern,) = zoo.file.pretrained.networks
    assert fnmatch.fnmatch(f"{name}-lr_0.01-res_224.npz", pattern)


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


def test_a_setting_that_a_grid_does_not_have_is_named(tmp_path):
    content = content_of("released-bert-zoo")
    content["scales"]["demo"]["settings"] = ["sentencs"]
    path = written(tmp_path, "released-bert-zoo", content)
    with pytest.raises(plan.PlanError, match="no setting 'sentencs'; did you mean 'sentences'"):
        load(path)


VISION = [
    ({"title": None}, "vision-zoo.yaml: title"),
    ({"jobs": 0}, "jobs: .*found 0"),
    ({"adaptive": {"roh": 1}}, "adaptive: unknown key 'roh'; did you mean 'rho'"),
    ({"scales": {"dmo": {}}}, "scales: unknown key 'dmo'; did you mean 'demo'"),
    ({"pretrained": None}, "paper: give either grid or pretrained"),
    (
        {"grid": "vision-gird"},
        "scales.paper.grid: unknown experiment 'vision-gird'; did you mean 'vision-grid'",
    ),
    ({"grid": "representativeness"}, "grid: representativeness is no grid"),
]
CLIP = [
    ({"test_sets": {}}, "test_sets: accuracy needs the clean one, test"),
    ({"test_sets": {"test": {}}}, "test_sets.test: give one of corrupted, part or files"),
    ({"test_sets": {"test": {"part": "a"}}}, "part is not for networks from elsewhere"),
    ({"settings": ["a"]}, "settings: are those of a grid; leave it out"),
    ({"pretrained": {"layout": "timm"}}, "architecture: layout timm needs it"),
    ({"pretrained": {"layout": "bert"}}, "labels: layout bert needs one for each"),
    ({"sharpness": {"sharpness_stepz": 1}}, "unknown key 'sharpness_stepz'; did you mean"),
    ({"familes": 1}, "unknown key 'familes'"),
]


@pytest.mark.parametrize(("change", "message"), VISION)
def test_a_bad_file_of_images_names_the_key(change, message, tmp_path):
    content = content_of("vision-zoo")
    if "grid" in change:
        del content["scales"]["paper"]["pretrained"]
    for key, value in change.items():
        (content if key in content else content["scales"]["paper"])[key] = value
    with pytest.raises(plan.PlanError, match=message):
        load(written(tmp_path, "vision-zoo", content), "paper")


@pytest.mark.parametrize(("change", "message"), CLIP)
def test_a_bad_file_of_other_layouts_names_the_key(change, message, tmp_path):
    content = content_of("released-clip-zoo")
    content["scales"]["paper"]["pretrained"] |= change.get("pretrained", {})
    content |= {key: value for key, value in change.items() if key != "pretrained"}
    with pytest.raises(plan.PlanError, match=re.escape(message)):
        load(written(tmp_path, "released-clip-zoo", content), "paper")
