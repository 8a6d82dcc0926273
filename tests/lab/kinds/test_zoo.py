"""Zoos: networks from files or of a grid, images by class, failures, restarts, the command."""

import numpy as np
import pytest
import torch
import xarray as xr
from PIL import Image
from safetensors.torch import save_file

import flatlab
from flatlab.cli import main
from flatlab.core import store
from flatlab.core.resume_state import ResumeState
from flatlab.data import DataError
from flatlab.data._images import Images
from flatlab.data._tensors import prepare
from flatlab.lab.tables.runs import of_zoo
from flatlab.measuring import networks as measuring
from flatlab.networks import _timm as networks
from flatlab.networks import build
from tests.lab.kinds.surveys import networks_of_a_grid
from tests.lab.train import packs
from tests.lab.train.packs import DATA

NAME = "test_vit"  # timm's own, for tests: 0.4 million parameters, 160 pixels
QUICK = ("draws=2", "trace=none", "ascent_steps=0", "tolerance=0.1")
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
    torch.manual_seed(3)
    model = networks.build(NAME, num_classes=1000)
    save_file(model.state_dict(), folder / f"{NAME}.safetensors")
    (folder / "test_vit2.safetensors").write_bytes(b"not weights")
    save_file({"fc": torch.zeros(2)}, folder / "test_resnet.safetensors")
    return folder


def settings(**changes):
    return {
        "samples": 4,
        "seed": 0,
        "families": {"adaptive": FAST},
        "jobs": 1,
        "part": 0,
        "from": "timm",
        "networks": "folder",
        "images": "imagenet",
        "classes": 1000,
        "size_at_most": 384,
        "folder": "timm",
        **changes,
    }


def measured(settings, folder, unfinished):
    """The networks of a pack, whose weights come from elsewhere."""
    return measuring.measure_networks(settings, None, folder, unfinished, "cpu")


def left(tmp_path):
    return ResumeState(tmp_path / "unfinished", {})


@pytest.fixture(scope="module")
def imagenet(weights):
    """Images of two of ImageNet's classes beside the weights, in one data folder."""
    generator = np.random.default_rng(0)
    folder = weights.parent / "imagenet"
    for name in ("n01440764", "n01443537"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(3):
            pixels = generator.integers(0, 255, (170, 170, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return weights.parent


@pytest.fixture(scope="module")
def survey(imagenet, tmp_path_factory):
    """The table of the networks in the folder, and where it was made."""
    folder = tmp_path_factory.mktemp("survey")
    return measured(settings(), imagenet, left(folder)), folder


def test_failures_are_recorded_and_the_job_goes_on(survey):
    found, _ = survey
    assert list(found["run"].values) == ["test_resnet", NAME, "test_vit2"]
    reasons = list(found["failure"].values)
    assert "does not fit" in reasons[0]
    assert reasons[1] == ""
    assert "cannot be read" in reasons[2]
    assert np.isfinite(found["normalized_mls"].values).tolist() == [False, True, False]
    table = of_zoo([found], {"data": "imagenet", "training": "", "samples": 4, "stands_in_for": ""})
    correct = f"{found['sample_accuracy'].values[1]:.0f}"
    extent = f"; accuracy {correct} to {correct} %; 2 could not be measured"
    assert table.attrs["extent"].endswith(extent)


def test_a_network_in_a_file_is_measured_with_its_own_transform(imagenet, survey):
    found = survey[0].sel(run=NAME)
    model = networks.load(NAME, imagenet / "timm")
    chosen = Images(imagenet / "imagenet", 4, 0)
    inputs = chosen.inputs(networks.configuration(model))
    assert inputs.shape == (4, 3, 160, 160)
    labels = chosen.labels(1000)
    assert {*labels.tolist()} <= {0, 1}  # the first two of ImageNet
    report = flatlab.measure(model, inputs, labels, families=["adaptive"], **FAST)
    for name in ("adaptive_sharpness", "normalized_mls"):
        assert float(found[name]) == float(report[name])


def test_what_was_measured_is_not_measured_again(imagenet, survey, monkeypatch):
    whole, folder = survey
    calls = []
    original = measuring.measured
    monkeypatch.setattr(measuring, "measured", lambda *a, **k: calls.append(1) or original(*a, **k))
    again = measured(settings(), imagenet, left(folder))
    assert not calls
    xr.testing.assert_identical(whole, again)
    measured(settings(), imagenet, ResumeState(folder / "unfinished", {"other": 1}))
    assert calls == [1]


def test_an_interrupted_job_keeps_what_it_had(imagenet, tmp_path, monkeypatch):
    good, calls = networks.load, []

    def second_stops(name, folder):
        calls.append(name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return good(name, folder)

    monkeypatch.setattr(networks, "load", second_stops)
    with pytest.raises(KeyboardInterrupt):
        measured(settings(), imagenet, left(tmp_path))
    measured(settings(), imagenet, left(tmp_path))
    assert calls == ["test_resnet", NAME, NAME, "test_vit2"]


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
    chosen, files, weights = networks_of_a_grid(tmp_path, stripes, asked, (2, 1))
    settings = {"samples": 4, "seed": 0, "families": {"adaptive": FAST}}
    settings |= {"from": "grid", "networks": chosen}
    return settings, files, weights


def test_networks_of_a_grid_are_measured_from_their_weights(of_grid, stripes, tmp_path):
    asked, files, (arrays, about) = of_grid
    found = measuring.measure_networks(asked, files, tmp_path, left(tmp_path), "cpu")
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
    extent = of_zoo([found], about).attrs["extent"]
    assert extent.endswith(f"4 images each; training accuracy {low:.0f} to {high:.0f} %")


def test_weights_that_do_not_fit_are_a_failure_of_that_network_alone(of_grid, tmp_path):
    asked, files, _ = of_grid
    other = {"model": "resnet10t", "arguments": {"channels": [8, 8, 8, 8], "stem_width": 4}}
    asked["networks"][0]["network"] = {**NETWORK, "options": other}
    found = measuring.measure_networks(asked, files, tmp_path, left(tmp_path), "cpu")
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


def test_the_command_says_what_does_not_fit(weights, images, capsys, tmp_path):
    model = networks.build(NAME, num_classes=3)
    path = tmp_path / "mine.safetensors"
    save_file(model.state_dict(), path)
    arguments = ["measure", "--timm", NAME, "--weights", str(path), "--images", str(images)]
    assert main([*arguments, "--samples", "4"]) == 1  # of 1000 classes the file has 3
    assert "does not fit" in capsys.readouterr().err
    save_file(networks.load(NAME, weights).state_dict(), path)
    assert main([*arguments, "--samples", "4"]) == 1
    assert "not one of ImageNet's" in capsys.readouterr().err
    assert main(["measure", "--timm", NAME]) == 1
    assert "--timm and --images go together" in capsys.readouterr().err


def test_the_command_gives_both_quantities_with_errors_time_and_memory(imagenet, capsys, tmp_path):
    out = tmp_path / "report.zarr.zip"
    path = imagenet / "timm" / f"{NAME}.safetensors"
    arguments = ["measure", "--timm", NAME, "--weights", str(path)]
    arguments += ["--images", str(imagenet / "imagenet"), "--samples", "2", "--out", str(out)]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    for part in ("adaptive_sharpness_error", "normalized_mls_error", " s, ", "GB of memory"):
        assert part in printed
    report = store.load_dataset(out)
    assert report.attrs["weights"] == path.name
    assert float(report["finite"]) == 1


def test_images_without_classes_are_refused(imagenet, images, capsys):
    path = str(imagenet / "timm" / f"{NAME}.safetensors")
    arguments = ["measure", "--timm", NAME, "--weights", path, "--samples", "2", "--images"]
    assert main([*arguments, str(images / "cat")]) == 1
    assert "put them into a folder for each class" in capsys.readouterr().err
