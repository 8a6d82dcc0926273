"""Zoos: networks by name from files, images by class, failures, restarts, training, the command."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import xarray as xr
from PIL import Image
from safetensors.torch import save_file

import flatlab
from flatlab import data, plan, store
from flatlab.cli import main
from flatlab.data import DataError
from flatlab.jobs import Unfinished
from flatlab.plan.schema import PlanError
from flatlab.plan.zoos import designs_of
from flatlab.tables.zoo import gather
from flatlab.zoos import members, networks, survey, training
from flatlab.zoos.images import Images

NAME = "test_vit"  # timm's own, for tests: 0.4 million parameters, 160 pixels
FAST = {"draws": 2, "trace": "none", "ascent_steps": 0, "tolerance": 0.1, "drop_above": None}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Three classes of three images each of different sizes, one in grey."""
    folder = tmp_path_factory.mktemp("images")
    generator = np.random.default_rng(0)
    for label, name in enumerate(["cat", "dog", "emu"]):
        (folder / name).mkdir()
        for number in range(3):
            shape = (170 + 10 * number, 190, 3) if number else (180, 180)
            pixels = generator.integers(0, 80, shape) + 60 * label
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A folder with a good file, one that is damaged and one of another network."""
    folder = tmp_path_factory.mktemp("data") / "timm"
    folder.mkdir()
    model = networks.seeded(NAME, 3, num_classes=1000)
    save_file(model.state_dict(), folder / f"{NAME}.safetensors")
    (folder / "test_vit2.safetensors").write_bytes(b"not weights")
    save_file({"fc": torch.zeros(2)}, folder / "test_resnet.safetensors")
    return folder


def settings(**changes):
    return {
        "samples": 4,
        "seed": 0,
        "adaptive": FAST,
        "jobs": 1,
        "part": 0,
        "pretrained": {
            "networks": "folder",
            "images": "imagenet",
            "classes": 1000,
            "size_at_most": 384,
        },
        **changes,
    }


def left(tmp_path):
    return Unfinished(tmp_path / "unfinished", {})


@pytest.fixture
def imagenet(weights, tmp_path):
    """Images of two of ImageNet's classes beside the weights, in one data folder."""
    generator = np.random.default_rng(0)
    folder = weights.parent / "imagenet"
    for name in ("n01440764", "n01443537"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(3):
            pixels = generator.integers(0, 255, (170, 170, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return weights.parent


def test_failures_are_recorded_and_the_job_goes_on(imagenet, tmp_path):
    found = survey.survey(settings(), imagenet, left(tmp_path))
    assert list(found["run"].values) == ["test_resnet", NAME, "test_vit2"]
    reasons = list(found["failure"].values)
    assert "does not fit" in reasons[0]
    assert reasons[1] == ""
    assert "cannot be read" in reasons[2]
    assert np.isfinite(found["normalized_norm"].values).tolist() == [False, True, False]
    table = gather([found], {"data": "imagenet", "training": "", "samples": 4, "stands_in_for": ""})
    correct = f"{found['sample_accuracy'].values[1]:.0f}"
    extent = f"; accuracy {correct} to {correct} %; 2 could not be measured"
    assert table.attrs["extent"].endswith(extent)


def test_a_network_in_a_file_is_measured_with_its_own_transform(imagenet, tmp_path):
    found = survey.survey(settings(), imagenet, left(tmp_path)).sel(run=NAME)
    model = networks.load(NAME, imagenet / "timm")
    chosen = Images(imagenet / "imagenet", 4, 0)
    inputs = chosen.inputs(networks.configuration(model))
    assert inputs.shape == (4, 3, 160, 160)
    labels = chosen.labels(1000)
    assert {*labels.tolist()} <= {0, 1}  # the first two of ImageNet
    report = flatlab.measure(model, inputs, labels, families=["adaptive"], adaptive=FAST)
    for name in ("adaptive_sharpness", "normalized_norm"):
        assert float(found[name]) == float(report[name])


def test_what_was_measured_is_not_measured_again(imagenet, tmp_path, monkeypatch):
    whole = survey.survey(settings(), imagenet, left(tmp_path))
    measured = []
    original = survey.measure
    monkeypatch.setattr(survey, "measure", lambda *a, **k: measured.append(1) or original(*a, **k))
    again = survey.survey(settings(), imagenet, left(tmp_path))
    assert not measured
    xr.testing.assert_identical(whole, again)
    survey.survey(settings(), imagenet, Unfinished(tmp_path / "unfinished", {"other": 1}))
    assert measured == [1]


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
        survey.survey(settings(), imagenet, left(tmp_path))
    survey.survey(settings(), imagenet, left(tmp_path))
    assert calls == ["test_resnet", NAME, NAME, "test_vit2"]


def test_networks_by_pattern_and_list(tmp_path):
    assert networks.wanted(["test_vit.*", "resnet18"], tmp_path)[0] == "resnet18"
    assert len(networks.wanted(["test_vit.*", "resnet18"], tmp_path)) > 1
    with pytest.raises(DataError, match=r"no \.safetensors files"):
        networks.wanted("folder", tmp_path)


def test_parts_of_a_zoo_are_all_of_it_once():
    zoo = plan.load_zoo("vision-zoo", "demo")
    parts = [plan.survey_settings(zoo, part)["trained"]["networks"] for part in zoo.parts]
    designs = [design for part in parts for design in part]
    keys = [f"{d['name']} {sorted(d['options'].items())} {d['seeds']}" for d in designs]
    assert len(keys) == len(set(keys)) >= 24
    assert len({networks.family_of(design["name"]) for design in designs}) >= 8


@pytest.mark.parametrize(("scale", "least"), [("demo", 24), ("short", 60)])
def test_every_stand_in_is_large_enough_and_can_be_built(scale, least):
    zoo = plan.load_zoo("vision-zoo", scale)
    assert zoo.name == "local-zoo"
    assert sum(len(design.seeds) for design in zoo.trained.networks) >= least
    designs = designs_of(zoo)
    keys = [members.key_of(design) for design in designs]
    assert len(set(keys)) == len(keys)
    splits = members.splits_of(data.load("digits"), {"scaling": "unit"})
    for design in (design for design in designs if design["seeds"] == [0]):
        model = members.build(design, splits)
        inputs = members.seen_by(design, splits.test.subset(2, 0)).inputs
        assert model(inputs).shape == (2, 10)


def test_a_network_that_is_trained_here_repeats_and_learns(stripes):
    splits = members.splits_of(stripes, TRAINED)
    split = members.seen_by({"size": 16}, splits.train)
    chosen = {"steps": 40, "batch_size": 32, "lr": 0.01}
    options = {"channels": (8, 8, 16, 16), "stem_width": 8}

    def trained(seed):
        model = networks.seeded("resnet10t", seed, num_classes=3, in_chans=1, **options)
        return training.train(model, split, chosen, seed)

    state = torch.get_rng_state()
    first, second, other = (trained(seed).state_dict() for seed in (0, 0, 1))
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)
    assert training.accuracy(trained(0), split) > 80


DESIGNS = [
    {"name": "resnet10t", "size": 16, "options": {"channels": [4, 4, 8, 8], "stem_width": 4}},
    {"name": "test_nothing", "size": 16, "options": {}},
    {"name": "test_vit", "size": 16, "options": {"patch_size": 4, "embed_dim": 8, "depth": 1}},
]
TRAINED = {
    "scaling": "standardized",
    "steps": 5,
    "batch_size": 16,
    "lr": 0.01,
    "initialization": "xavier",
}


@pytest.fixture
def trained(stripes, tmp_path):
    """Settings, data and what a job has trained: two networks, and one that there is not."""
    designs = [{**design, "seeds": [1]} for design in DESIGNS]
    chosen = {**TRAINED, "networks": designs}
    return chosen, stripes, members.train_members(chosen, stripes, left(tmp_path / "members"))


def test_members_of_a_zoo_are_kept_with_their_accuracies_and_failures(trained, tmp_path):
    chosen, raw, (weights, about) = trained
    names = ["resnet10t-w8-s1", "test_nothing-wdefault-s1", "test_vit-w8-s1"]
    assert list(about) == names
    assert ["nknown model" in facts["failure"] for facts in about.values()] == [False, True, False]
    assert {name.split("/")[0] for name in weights} == {names[0], names[2]}
    store.save_weights(tmp_path / "0.safetensors", weights, about)
    weights, about = store.load_weights(tmp_path / "0.safetensors")
    splits = members.splits_of(raw, chosen)
    design = chosen["networks"][0]
    model = members.trained(design, splits, weights)
    fresh = members.build(design, splits)
    training.spread_weights(fresh, 1)
    again = training.train(fresh, members.seen_by(design, splits.train), chosen, 1)
    assert all(torch.equal(t, again.state_dict()[name]) for name, t in model.state_dict().items())
    accuracy = training.accuracy(model, members.seen_by(design, splits.test))
    assert accuracy == about[names[0]]["test_accuracy"]


def test_members_that_are_trained_are_not_trained_again(trained, tmp_path, monkeypatch):
    chosen, raw, first = trained
    monkeypatch.setattr(training, "train", lambda *a, **k: pytest.fail("trained again"))
    weights, about = members.train_members(chosen, raw, left(tmp_path / "members"))
    assert about == first[1]
    assert all(np.array_equal(weights[name], array) for name, array in first[0].items())


def test_members_are_measured_from_their_weights(trained, tmp_path):
    chosen, raw, made = trained
    asked = {key: settings()[key] for key in ("samples", "seed", "adaptive")} | {"trained": chosen}
    found = survey.survey(asked, tmp_path, left(tmp_path), raw, made)
    assert [bool(reason) for reason in found["failure"].values] == [False, True, False]
    accuracies = [facts["train_accuracy"] for facts in made[1].values() if not facts["failure"]]
    assert [*found["train_accuracy"].dropna("run").values] == accuracies
    about = {"data": "stripes", "training": "5 steps each", "samples": 4, "stands_in_for": ""}
    low, high = f"{min(accuracies):.0f}", f"{max(accuracies):.0f}"
    extent = gather([found], about).attrs["extent"]
    assert f"training accuracy {low} to {high} %; 1 could not" in extent
    splits = members.splits_of(raw, chosen)
    design = chosen["networks"][0]
    subset = members.seen_by(design, splits.train.subset(4, 0))
    model = members.trained(design, splits, made[0])
    report = flatlab.measure(
        model, subset.inputs, subset.labels, families=["adaptive"], adaptive=FAST
    )
    assert float(found["adaptive_sharpness"][0]) == float(report["adaptive_sharpness"])


def test_spread_weights_have_the_deviation_of_glorot_and_bengio():
    model, other = (torch.nn.Sequential(torch.nn.Linear(300, 200)) for _ in range(2))
    bias, state = model[0].bias.clone(), torch.get_rng_state()
    training.spread_weights(model, 0)
    training.spread_weights(other, 0)
    assert float(model[0].weight.detach().std()) == pytest.approx((2 / 500) ** 0.5, rel=0.02)
    assert torch.equal(model[0].weight, other[0].weight)
    assert torch.equal(model[0].bias, bias)
    assert torch.equal(torch.get_rng_state(), state)


def test_images_keep_their_nearest_pixels():
    x = torch.arange(4.0).view(1, 1, 2, 2)
    assert training.resized(x, 4)[0, 0].tolist() == [[0, 0, 1, 1]] * 2 + [[2, 2, 3, 3]] * 2
    assert training.resized(x, 2) is x


def test_labels_are_the_places_of_folders_among_all_classes(images):
    chosen = Images(images, 100, 0)
    names = [name for name, _ in chosen.chosen]
    assert chosen.labels(3).tolist() == [["cat", "dog", "emu"].index(name) for name in names]
    with pytest.raises(DataError, match="'cat' is none of ImageNet's"):
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": None}, "vision-zoo.yaml: title"),
        ({"jobs": 0}, "jobs: .*found 0"),
        ({"adaptive": {"roh": 1}}, "adaptive: unknown key 'roh'; did you mean 'rho'"),
        ({"scales": {"dmo": {}}}, "scales: unknown key 'dmo'; did you mean 'demo'"),
        ({"pretrained": None}, "give either trained or pretrained"),
    ],
)
def test_a_bad_file_names_the_key(change, message, tmp_path, monkeypatch):
    import yaml

    from flatlab.plan import zoos

    content = yaml.safe_load((zoos.FOLDER / "vision-zoo.yaml").read_text())
    changed = copy.deepcopy(content)
    for key, value in change.items():
        (changed if key in changed else changed["scales"]["paper"])[key] = value
    (tmp_path / "vision-zoo.yaml").write_text(yaml.safe_dump(changed))
    monkeypatch.setattr(zoos, "FOLDER", tmp_path)
    with pytest.raises(PlanError, match=message):
        zoos.load_zoo("vision-zoo", "paper")


def test_the_command_says_what_does_not_fit(weights, images, capsys, tmp_path):
    model = networks.seeded(NAME, 3, num_classes=3)
    path = tmp_path / "mine.safetensors"
    save_file(model.state_dict(), path)
    arguments = ["measure", "--timm", NAME, "--weights", str(path), "--images", str(images)]
    assert main([*arguments, "--samples", "4"]) == 1  # of 1000 classes the file has 3
    assert "does not fit" in capsys.readouterr().err
    save_file(networks.load(NAME, weights).state_dict(), path)
    assert main([*arguments, "--samples", "4"]) == 1
    assert "none of ImageNet's" in capsys.readouterr().err
    assert main(["measure", "--timm", NAME]) == 1
    assert "--timm and --images go together" in capsys.readouterr().err


def test_the_command_gives_both_quantities_with_errors_time_and_memory(imagenet, capsys, tmp_path):
    out = tmp_path / "report.zarr.zip"
    path = imagenet / "timm" / f"{NAME}.safetensors"
    arguments = ["measure", "--timm", NAME, "--weights", str(path)]
    arguments += ["--images", str(imagenet / "imagenet"), "--samples", "2", "--out", str(out)]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    for part in ("adaptive_sharpness_error", "normalized_norm_error", " s, ", "GB of memory"):
        assert part in printed
    report = store.load_dataset(out)
    assert report.attrs["weights"] == path.name
    assert float(report["finite"]) == 1


def test_images_of_other_classes_or_of_none_need_no_labels(imagenet, images, capsys):
    """With the outputs themselves as targets, whatever folder the images lie in."""
    path = str(imagenet / "timm" / f"{NAME}.safetensors")
    arguments = ["measure", "--timm", NAME, "--weights", path, "--samples", "2", "--images"]
    assert main([*arguments, str(images / "cat")]) == 1
    assert "have no labels; choose targets: own" in capsys.readouterr().err
    for folder in (images, images / "cat"):
        assert main([*arguments, str(folder), "--targets", "own"]) == 0
        printed = capsys.readouterr().out
        assert "adaptive_sharpness_error" in printed
        assert "sample_accuracy" not in printed


def test_a_zoo_is_measured_on_images_without_labels(imagenet, images, tmp_path):
    chosen = {**settings()["pretrained"], "images": str(images / "dog")}
    asked = settings(pretrained=chosen, adaptive={**FAST, "targets": "own"}, samples=2)
    found = survey.survey(asked, imagenet, left(tmp_path)).sel(run=[NAME])
    assert found["finite"].values == 1
    assert np.isnan(found["sample_accuracy"].values)
    about = {"data": "dogs", "training": "", "samples": 2, "stands_in_for": ""}
    assert "accuracy" not in gather([found], about).attrs["extent"]


def test_networks_that_cannot_be_built_say_why():
    with pytest.raises(DataError, match=r"vit_nothing cannot be built: .*nknown model"):
        networks.build("vit_nothing")
