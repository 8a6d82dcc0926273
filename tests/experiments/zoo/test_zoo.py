"""Zoos: networks from files or of a grid, images by class, failures, restarts, the command."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import xarray as xr

import flatlab
from flatlab import data, plan, store
from flatlab.data import DataError
from flatlab.data._images import Images
from flatlab.data._tensors import prepare
from flatlab.jobs.resume_state import ResumeState
from flatlab.metrics import _measure_zoo
from flatlab.networks import _timm as networks
from flatlab.networks import build
from flatlab.tables.zoo import gather
from flatlab.train import train_packs
from tests.experiments.zoo.surveys import NAME
from tests.train import packs
from tests.train.packs import DATA

EXPERIMENTS = Path(__file__).resolve().parents[3] / "experiments"
FAST = {"draws": 2, "trace": "none", "ascent_steps": 0, "tolerance": 0.1, "drop_above": None}


def settings(**changes):
    return {
        "samples": 4,
        "seed": 0,
        "families": {"adaptive": FAST},
        "jobs": 1,
        "part": 0,
        "pretrained": {
            "networks": "folder",
            "images": "imagenet",
            "classes": 1000,
            "size_at_most": 384,
            **{"layout": None, "folder": "timm", "labels": []},
        },
        **changes,
    }


def measured(settings, folder, unfinished):
    """The networks of a pack, whose weights come from elsewhere."""
    return _measure_zoo.measure_zoo(settings, None, folder, unfinished, "cpu")


def left(tmp_path):
    return ResumeState(tmp_path / "unfinished", {})


def test_failures_are_recorded_and_the_job_goes_on(imagenet, tmp_path):
    found = measured(settings(), imagenet, left(tmp_path))
    assert list(found["run"].values) == ["test_resnet", NAME, "test_vit2"]
    reasons = list(found["failure"].values)
    assert "does not fit" in reasons[0]
    assert reasons[1] == ""
    assert "cannot be read" in reasons[2]
    assert np.isfinite(found["normalized_mls"].values).tolist() == [False, True, False]
    table = gather([found], {"data": "imagenet", "training": "", "samples": 4, "stands_in_for": ""})
    correct = f"{found['sample_accuracy'].values[1]:.0f}"
    extent = f"; accuracy {correct} to {correct} %; 2 could not be measured"
    assert table.attrs["extent"].endswith(extent)


def test_a_network_in_a_file_is_measured_with_its_own_transform(imagenet, tmp_path):
    found = measured(settings(), imagenet, left(tmp_path)).sel(run=NAME)
    model = networks.load(NAME, imagenet / "timm")
    chosen = Images(imagenet / "imagenet", 4, 0)
    inputs = chosen.inputs(networks.configuration(model))
    assert inputs.shape == (4, 3, 160, 160)
    labels = chosen.labels(1000)
    assert {*labels.tolist()} <= {0, 1}  # the first two of ImageNet
    report = flatlab.measure(model, inputs, labels, families=["adaptive"], **FAST)
    for name in ("adaptive_sharpness", "normalized_mls"):
        assert float(found[name]) == float(report[name])


def test_what_was_measured_is_not_measured_again(imagenet, tmp_path, monkeypatch):
    whole = measured(settings(), imagenet, left(tmp_path))
    calls = []
    original = _measure_zoo.measure
    monkeypatch.setattr(
        _measure_zoo, "measure", lambda *a, **k: calls.append(1) or original(*a, **k)
    )
    again = measured(settings(), imagenet, left(tmp_path))
    assert not calls
    xr.testing.assert_identical(whole, again)
    measured(settings(), imagenet, ResumeState(tmp_path / "unfinished", {"other": 1}))
    assert calls == [1]


def test_an_interrupted_job_keeps_what_it_had(imagenet, tmp_path, monkeypatch):
    def stop(name, folder):
        raise KeyboardInterrupt

    good = networks.load
    calls = []

    def second_stops(name, folder):
        calls.append(name)
        return stop(name, folder) if len(calls) == 2 else good(name, folder)

    monkeypatch.setattr(networks, "load", second_stops)
    with pytest.raises(KeyboardInterrupt):
        measured(settings(), imagenet, left(tmp_path))
    measured(settings(), imagenet, left(tmp_path))
    assert calls == ["test_resnet", NAME, NAME, "test_vit2"]


def test_networks_by_pattern_and_list(tmp_path):
    assert networks.wanted(["test_vit.*", "resnet18"], tmp_path)[0] == "resnet18"
    assert len(networks.wanted(["test_vit.*", "resnet18"], tmp_path)) > 1
    with pytest.raises(DataError, match=r"no \.safetensors files"):
        networks.wanted("folder", tmp_path)


def load(key, scale):
    """An experiment of the project."""

    def find(other, where=""):
        return plan.load_experiment(EXPERIMENTS, other, scale, find, where)

    return find(key)


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


NETWORK = {
    "name": "timm",
    "initialization": "xavier-linear",
    "options": {"model": "resnet10t", "arguments": {"channels": [4, 4, 8, 8], "stem_width": 4}},
}
STRIPES = {**DATA, "set": "stripes", "pixels": 16}


@pytest.fixture
def of_grid(stripes, tmp_path):
    """What a pack of a zoo reads: weights and data of a grid's two networks; and its settings."""
    asked = packs.settings("timm", seeds=(1, 2), data=STRIPES, loss="cross-entropy", iterations=5)
    asked["network"] |= NETWORK
    asked["training"]["precision"] = "float32"
    (trained,) = train_packs(stripes, [asked])
    files = SimpleNamespace(
        weights=[str(tmp_path / "pack.safetensors")], data=[str(tmp_path / "stripes.zarr.zip")]
    )
    store.save_weights(files.weights[0], *trained.weights)
    store.save_dataset(files.data[0], stripes)
    chosen = [
        {
            **{"run": f"s{seed}", "network": NETWORK, "data": STRIPES, "outputs": None, "file": 0},
            "hyperparameters": {},
        }
        for seed in (2, 1)
    ]
    settings = {"samples": 4, "seed": 0, "families": {"adaptive": FAST}, "networks": chosen}
    return settings, files, trained.weights


def test_networks_of_a_grid_are_measured_from_their_weights(of_grid, stripes, tmp_path):
    asked, files, (arrays, about) = of_grid
    found = _measure_zoo.measure_zoo(asked, files, tmp_path, left(tmp_path), "cpu")
    assert [*found["run"].values] == ["s2", "s1"]
    assert {*found["network"].values} == {"resnet10t"}
    splits = prepare(stripes, STRIPES, None, torch.float32)
    subset = splits.train.subset(4, 0)
    for run in ("s1", "s2"):
        model = build(NETWORK, splits.train.inputs.shape[1:], 3)
        place = about["runs"].index(run)
        model.load_state_dict({n: torch.tensor(a[place, -1]) for n, a in arrays.items()})
        model.eval()
        report = flatlab.measure(model, subset.inputs, subset.labels, families=["adaptive"], **FAST)
        row = found.sel(run=run)
        assert float(row["adaptive_sharpness"]) == float(report["adaptive_sharpness"])
        for name, split in (("train", splits.train), ("test", splits.test)):
            right = model(split.inputs).argmax(1) == split.labels
            expected = 100 * float(right.double().mean())
            assert float(row[f"{name}_accuracy"]) == pytest.approx(expected)
    about = {"data": "stripes", "training": "5 iterations", "samples": 4, "stands_in_for": ""}
    low, high = sorted(found["train_accuracy"].values)
    extent = gather([found], about).attrs["extent"]
    assert extent.endswith(f"4 images each; training accuracy {low:.0f} to {high:.0f} %")


def test_weights_that_do_not_fit_are_a_failure_of_that_network_alone(of_grid, tmp_path):
    asked, files, _ = of_grid
    other = {"model": "resnet10t", "arguments": {"channels": [8, 8, 8, 8], "stem_width": 4}}
    asked["networks"][0]["network"] = {**NETWORK, "options": other}
    found = _measure_zoo.measure_zoo(asked, files, tmp_path, left(tmp_path), "cpu")
    assert str(found["failure"].values[0]).startswith("RuntimeError")
    assert found["failure"].values[1] == ""
    assert np.isfinite(found["adaptive_sharpness"].values).tolist() == [False, True]


def test_labels_are_the_places_of_folders_among_all_classes(images):
    chosen = Images(images, 100, 0)
    names = [file.parent.name for file in chosen.chosen]
    assert chosen.labels(3).tolist() == [["cat", "dog", "emu"].index(name) for name in names]
    with pytest.raises(DataError, match="'cat' is not one of ImageNet's"):
        chosen.labels(1000)
    with pytest.raises(DataError, match="do not fit 7 outputs"):
        chosen.labels(7)


def test_a_damaged_image_is_named(images, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").write_bytes(b"broken")
    configuration = networks.configuration(networks.build(NAME))
    with pytest.raises(DataError, match=r"1\.png cannot be read"):
        Images(tmp_path, 5, 0).inputs(configuration)


def test_a_zoo_is_measured_on_images_without_labels(imagenet, images, tmp_path):
    chosen = {**settings()["pretrained"], "images": str(images / "dog")}
    families = {"adaptive": {**FAST, "own_targets": True}}
    asked = settings(pretrained=chosen, families=families, samples=2)
    found = measured(asked, imagenet, left(tmp_path)).sel(run=[NAME])
    assert found["finite"].values == 1
    assert np.isnan(found["sample_accuracy"].values)
    about = {"data": "dogs", "training": "", "samples": 2, "stands_in_for": ""}
    assert "accuracy" not in gather([found], about).attrs["extent"]


def test_networks_that_cannot_be_built_say_why():
    with pytest.raises(DataError, match=r"vit_nothing cannot be built: .*nknown model"):
        networks.build("vit_nothing")
