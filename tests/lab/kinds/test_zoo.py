"""Zoos: networks from files or of a grid, images by class, failures, restarts, the command."""

import numpy as np
import pytest
import torch
import xarray as xr
from PIL import Image
from safetensors.torch import save_file
from torch import nn

import flatlab
from flatlab.cli import main
from flatlab.core import store
from flatlab.core.resume_state import ResumeState
from flatlab.data._images import Images
from flatlab.data._tensors import prepare
from flatlab.data.corruptions import test_set as corrupted_images
from flatlab.families import accuracy
from flatlab.lab.tables.runs import of_zoo
from flatlab.losses import loss_of
from flatlab.measuring import networks as measuring
from flatlab.measuring.dataset import Row
from flatlab.measuring.networks import _joined
from flatlab.measuring.quantity import settings_of
from flatlab.networks import _timm as networks
from flatlab.networks import build
from tests.lab.kinds.surveys import FAMILIES, SHARPNESS, networks_of_a_grid, surveyed
from tests.lab.train import packs
from tests.lab.train.packs import DATA
from tests.networks.written import Written
from tests.refusals import refused

STRIPES = {**DATA, "set": "made-up"}
NAME = "test_vit"  # timm's own, for tests: 0.4 million parameters, 160 pixels
FAST = {"draws": 2, "trace": "none", "ascent_steps": 0, "tolerance": 0.1, "drop_above": None}


def draw_images(folder, *classes):
    """Three images of each class."""
    generator = np.random.default_rng(0)
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(3):
            pixels = generator.integers(0, 255, (170, 170, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")


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


SETTINGS = {
    **{"samples": 4, "seed": 0, "families": {"adaptive": FAST}, "jobs": 1, "part": 0},
    **{"from": "timm", "networks": "folder", "folder": "timm", "size_at_most": 384},
    **{"images": "imagenet", "classes": 1000},
}
"""Of networks whose weights come from elsewhere."""


def measured(folder, unfinished):
    return measuring.measure_networks(SETTINGS, None, folder, unfinished, "cpu")


def left(tmp_path):
    return ResumeState(tmp_path / "unfinished", {})


@pytest.fixture(scope="module")
def imagenet(weights):
    """Images of two of ImageNet's classes beside the weights, in one data folder."""
    draw_images(weights.parent / "imagenet", "n01440764", "n01443537")
    return weights.parent


@pytest.fixture(scope="module")
def survey(imagenet, tmp_path_factory):
    """The table of the networks in the folder, and where it was made."""
    folder = tmp_path_factory.mktemp("survey")
    return measured(imagenet, left(folder)), folder


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
    original = measuring.measure_family

    def counted(*arguments):
        calls.append(1)
        return original(*arguments)

    monkeypatch.setattr(measuring, "measure_family", counted)
    again = measured(imagenet, left(folder))
    assert not calls
    xr.testing.assert_identical(whole, again)
    measured(imagenet, ResumeState(folder / "unfinished", {"other": 1}))
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
        measured(imagenet, left(tmp_path))
    measured(imagenet, left(tmp_path))
    assert calls == ["test_resnet", NAME, NAME, "test_vit2"]


def test_the_command_says_what_does_not_fit(weights, capsys, tmp_path):
    def told(*arguments):
        assert main(["measure", "--timm", NAME, *map(str, arguments)]) == 1
        return capsys.readouterr().err

    draw_images(tmp_path / "pets", "cat", "dog")
    path = tmp_path / "mine.safetensors"
    given = ("--samples", "4", "--weights", path, "--images")
    save_file(networks.build(NAME, num_classes=3).state_dict(), path)
    assert "does not fit" in told(*given, tmp_path / "pets")  # of 1000 classes the file has 3
    save_file(networks.load(NAME, weights).state_dict(), path)
    assert "not one of ImageNet's" in told(*given, tmp_path / "pets")
    assert "put them into a folder for each class" in told(*given, tmp_path / "pets/cat")
    assert "--timm and --images go together" in told()


@pytest.mark.more
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


# Networks of a grid, and families


@pytest.fixture
def of_grid(stripes, tmp_path):
    """What a zoo reads of a grid's three networks, trained for a few steps; and its settings."""
    stripes = stripes.assign(
        odd_inputs=stripes["test_inputs"] + 3, odd_labels=stripes["test_labels"]
    )
    asked = packs.settings("mlp", (1, 2, 4), data=STRIPES, loss="cross-entropy", iterations=9)
    asked["network"]["options"]["width"] = 5
    asked["training"] |= {"precision": "float32", "lr": {"low": 0.01, "high": 0.1}}
    chosen, files, weights = networks_of_a_grid(
        tmp_path, stripes, asked, (4, 1), augmentation="none"
    )
    noisy = {"corruptions": ["gaussian-noise"], "severity": 5, "size": 7}
    noisy |= {"source": "made", "seed": 0}
    sets = {"noisy": {"corrupted": noisy, "part": None}, "odd": {"corrupted": None, "part": "odd"}}
    settings = {
        **{"samples": 6, "seed": 3, "families": FAMILIES, "test_sets": sets},
        **{"from": "grid", "networks": chosen},
        **{"hyperparameters": {"lr": "lr", "strength": "augmentation"}},
        "levels": {"strength": ["weak", "none"]},
    }
    return settings, files, weights, stripes


def test_networks_of_a_grid_are_measured_by_the_same_code(of_grid, tmp_path):
    settings, files, (arrays, about), raw = of_grid
    table = surveyed(settings, tmp_path, files)
    assert table["test_set"].values.tolist() == ["test", "noisy", "odd"]
    assert {*table["network"].values} == {"mlp"}
    assert table["strength"].values.tolist() == [1, 1]
    further = {
        "noisy": corrupted_images(
            raw, settings["test_sets"]["noisy"]["corrupted"], "all", tmp_path
        ),
        "odd": (raw["odd_inputs"].values, raw["odd_labels"].values),
    }
    splits = prepare(raw, STRIPES, None, torch.float32, further=further)
    network = build(settings["networks"][0]["network"], (1, 4, 4), 3)
    how = settings_of("accuracy", FAMILIES["accuracy"], loss_of({"loss": "cross-entropy"}))
    subset = splits.train.subset(6, 3)
    for run in ("s4", "s1"):
        place, row = about["runs"].index(run), table.sel(run=run)
        network.load_state_dict({n: torch.tensor(a[place, -1]) for n, a in arrays.items()})
        network.eval()
        measured = accuracy.measure_splits(network, splits, how).values
        report = flatlab.measure(
            network, subset.inputs, subset.labels, families=["sharpness"], seed=3, **SHARPNESS
        )
        for name in ("test_set_error", "test_set_loss", "test_set_error_gap", "train_error"):
            np.testing.assert_array_equal(row[name].values, measured[name])
        found = row["sharpness_at_radius"].values
        np.testing.assert_array_equal(found, report["sharpness_at_radius"].values)
        assert float(row["lr"]) == about["lr"][place]


def test_networks_with_other_layers_stand_in_one_table():
    """Each layer has a place, and a network that lacks it a missing value there."""
    rows = []
    for number, layers in enumerate((["fc1", "fc2"], ["conv", "fc2"], [])):
        about = {"network": "some", "failure": "", "parameters": 1, "pixels": 2}
        about |= {"run": f"n{number}", "hyperparameters": {}, "coordinates": {"layer": layers}}
        found = {"weight_norm": np.arange(len(layers)) + 10.0 * number, "mls": np.array(number)}
        rows.append(Row(found if layers else {}, about))
    table = _joined(rows, {"families": ["geometry"]})
    assert table["layer"].values.tolist() == ["fc1", "fc2", "conv"]
    nan = np.nan
    expected = [[0, 1, nan], [nan, 11, 10], [nan, nan, nan]]
    np.testing.assert_array_equal(table["weight_norm"].values, expected)
    np.testing.assert_array_equal(table["mls"].values, [0, 1, nan])
    assert "norm_share" not in table


def test_a_part_that_is_not_there_is_named(of_grid, tmp_path):
    settings, files, *_ = of_grid
    settings["test_sets"]["odd"]["part"] = "even"
    (reason, _) = surveyed(settings, tmp_path, files)["failure"].values
    assert reason == "DataError: test_sets.odd: stripes has no part 'even'"


def test_tokens_have_the_sharpness_of_their_one_hot_vectors():
    """An embedding is a linear map of one-hot vectors; a mean over places mixes no samples."""
    torch.manual_seed(0)
    tokens, labels = torch.randint(7, (9, 5)), torch.arange(9) % 3
    parts = {"embed": nn.Embedding(7, 4), "head": nn.Linear(4, 3)}
    of_tokens = Written(lambda net, x: net.head(net.embed(x).mean(1).tanh()), **parts)
    of_vectors = Written(lambda net, x: net.head((x @ net.embed.weight).mean(1).tanh()), **parts)
    vectors = nn.functional.one_hot(tokens, 7).float()
    values = [
        flatlab.measure(model, x, labels, families="sharpness", **SHARPNESS).sharpness_at_radius
        for model, x in ((of_tokens, tokens), (of_vectors, vectors))
    ]
    np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-7)
    joined = {"families": ["sharpness", "representations"], **SHARPNESS}
    refused("inputs are torch.int64", flatlab.measure, of_tokens, tokens, labels, **joined)
    centred = lambda net, x: net.embed(x).mean(1) - net.embed(x).mean((0, 1))  # noqa: E731
    mixing = Written(centred, embed=nn.Embedding(7, 3))
    refused("depend on", flatlab.measure, mixing, tokens, labels, families="sharpness")


def test_weights_that_do_not_fit_are_a_failure_of_that_network_alone(of_grid, tmp_path):
    """Accuracies are known without their family, and are in the words of the table."""
    asked, files, *_ = of_grid
    network = asked["networks"][0]["network"]
    wider = {**network, "options": {**network["options"], "width": 7}}
    asked["networks"][0] = {**asked["networks"][0], "network": wider}
    asked["families"], asked["test_sets"] = {"adaptive": FAST}, {}
    found = surveyed(asked, tmp_path, files)
    assert str(found["failure"].values[0]).startswith("RuntimeError")
    assert found["failure"].values[1] == ""
    for name in ("adaptive_sharpness", "train_accuracy", "test_accuracy"):
        assert np.isfinite(found[name].values).tolist() == [False, True]
    about = {"data": "stripes", "training": "9 iterations", "samples": 6, "stands_in_for": ""}
    rate = f"{found['train_accuracy'].values[1]:.0f}"
    extent = of_zoo([found], about).attrs["extent"]
    words = f"6 images each; training accuracy {rate} to {rate} %; 1 could not be measured"
    assert extent.endswith(words)
