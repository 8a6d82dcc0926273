"""Zoos of published networks, from their files to the table; what a bad file says."""

import fnmatch
import json

import numpy as np
import pytest
import torch
from PIL import Image

import flatlab
from flatlab import data
from flatlab.data._images import Images
from flatlab.lab.tables.runs import of_zoo
from flatlab.networks import _published, _released
from papers.andriushchenko2023.tests.published import Soup, small_bert
from papers.andriushchenko2023.tests.sentences import HANS, LABELS, MNLI, tsv
from tests.lab.kinds.experiments import load
from tests.lab.kinds.surveys import FAMILIES, SHARPNESS, surveyed
from tests.refusals import refusal

CLASSES = ["n01440764", "n01443537", "n01484850", "n01491361", "n01494475"]


def draw(folder, names, count, seed):
    """A folder of images for each name."""
    generator = np.random.default_rng(seed)
    for name in names:
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = generator.integers(0, 255, (20, 18, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")


@pytest.fixture
def soups(tmp_path):
    """Two networks in the layout of CLIP, a broken one, training images and test sets."""
    folder = tmp_path / "data"
    (folder / "soups").mkdir(parents=True)
    torch.manual_seed(0)
    for number in range(2):
        torch.save(Soup().state_dict(), folder / f"soups/model_{number}.pt")
    (folder / "soups/model_2.pt").write_bytes(b"broken")
    known = {"model_0": {"lr": 0.01}, "model_1": {"lr": 0.1, "wd": 1}}
    (folder / "soups/hparam_info.json").write_text(json.dumps(known))
    draw(folder / "train", CLASSES, 3, 0)
    draw(folder / "val", CLASSES, 2, 1)
    draw(folder / "some", [CLASSES[3], f"{CLASSES[0]}+{CLASSES[2]}"], 4, 2)
    return folder


def of_soups(images="train", classes=5, **arguments):
    """Settings of a job.  arguments: of the function that loads the networks."""
    arguments = {
        **{"networks": ["model_*"], "layout": "clip", "described": "hparam_info.json"},
        **arguments,
    }
    tests = {"test": {"files": "val", "where": {}}, "shifted": {"files": "some", "where": {}}}
    return {
        **{"from": "function", "study": "andriushchenko2023", "folder": "soups"},
        **{"networks": "networks._released:networks", "arguments": arguments},
        **{"samples": 6, "seed": 0, "families": FAMILIES, "jobs": 1, "part": 0},
        **{"images": images, "classes": classes, "test_sets": tests},
        **{"hyperparameters": {"lr": "lr", "weight_decay": "wd"}, "levels": {}},
    }


def test_published_networks_are_measured_by_every_family(soups):
    table = surveyed(of_soups(), soups)
    assert table["run"].values.tolist() == ["model_0", "model_1", "model_2"]
    assert [bool(reason) for reason in table["failure"].values] == [False, False, True]
    assert np.isnan(table["sharpness_at_radius"].sel(run="model_2")).all()
    assert np.isnan(table["test_set_error"].sel(run="model_2")).all()
    np.testing.assert_array_equal(table["lr"].values, [0.01, 0.1, np.nan])
    np.testing.assert_array_equal(table["weight_decay"].values, [np.nan, 1, np.nan])
    network, how = _published.opened(soups / "soups/model_1.pt", "clip")
    chosen = Images(soups / "train", 6, 0)
    report = flatlab.measure(
        network, chosen.inputs(how), chosen.labels(5), families=["sharpness"], **SHARPNESS
    )
    row = table.sel(run="model_1")
    for name in ("sharpness_at_radius", "sharpness_radius", "sharpness_at_radius_error"):
        np.testing.assert_array_equal(row[name].values, report[name].values)
    about = {"data": "made up", "training": "", "samples": 6, "hyperparameters": []}
    extent = of_zoo([table], about).attrs["extent"]
    assert extent.startswith("3 networks on made up, pretrained, 6 samples each; ")


def test_errors_on_test_sets_of_some_classes_are_those_of_a_loop(soups):
    table = surveyed(of_soups(), soups).sel(run="model_0")
    network, how = _published.opened(soups / "soups/model_0.pt", "clip")

    def outputs(place):
        chosen = Images(soups / place)
        with torch.no_grad():
            return network(chosen.inputs(how)), [file.parent.name for file in chosen.chosen]

    wrong = [
        int(row.argmax()) != CLASSES.index(name) for row, name in zip(*outputs("val"), strict=True)
    ]
    shifted = []
    for row, name in zip(*outputs("some"), strict=True):
        either = max(row[0], row[2])  # two outputs mean one class
        best = f"{CLASSES[0]}+{CLASSES[2]}" if either > row[3] else CLASSES[3]
        shifted.append(best != name)
    assert table["test_set"].values.tolist() == ["test", "shifted"]
    found = table["test_set_error"].values
    np.testing.assert_allclose(found, [100 * np.mean(wrong), 100 * np.mean(shifted)])
    gap = table["test_set_error_gap"].values - np.array(found) / 100
    np.testing.assert_allclose(gap, -float(table["train_error"]) / 100)


def test_networks_with_other_outputs_are_left_out(soups):
    (reason, *_) = surveyed(of_soups(classes=1000), soups)["failure"].values
    assert "do not fit 1000 outputs" in reason or "left out: 5 outputs" in reason


@pytest.mark.parametrize(
    ("lost", "sentence"),
    [
        ("soups/hparam_info.json", "hparam_info.json cannot be read; put the hyper-parameters"),
        ("train", "train is not a folder or an archive"),
        ("val", "put images there, in one folder per class"),
    ],
)
def test_what_is_missing_is_one_sentence(soups, lost, sentence, tmp_path):
    (soups / lost).rename(tmp_path / "elsewhere")
    assert sentence in refusal(data.DataError, surveyed, of_soups(), soups)


def test_networks_of_sentences_are_measured_by_the_same_code(tmp_path):
    network = small_bert(tmp_path / "berts/bert_07").eval()
    columns = "sentence1", "sentence2", "gold_label", "heuristic"
    tsv(tmp_path / "mnli.tsv", columns[:3], [row for row in MNLI if row[2] != "-"])
    tsv(tmp_path / "hans.tsv", columns, HANS)
    asked = of_soups(
        **{"networks": ["bert_*"], "layout": "bert", "described": None},
        **{"images": "mnli.tsv", "labels": LABELS, "classes": 3},
    )
    asked |= {
        "folder": "berts",
        "hyperparameters": {},
        "samples": 3,
        "test_sets": {
            "test": {"files": "mnli.tsv", "where": {}},
            "shifted": {"files": "hans.tsv", "where": {"heuristic": "lexical_overlap"}},
        },
    }
    row = surveyed(asked, tmp_path).sel(run="bert_07")
    assert str(row["failure"].values) == ""
    assert np.isfinite(row["sharpness_at_radius"].values).sum() == 3
    wrapped = _published.OfPairs(network)
    pairs = [each[:2] for each in HANS[:2]]
    with torch.no_grad():
        best = wrapped(_published.tokens(tmp_path / "berts/bert_07", pairs)).argmax(1).tolist()
    entailed = [False, True]
    wrong = [(output == 1) != is_so for output, is_so in zip(best, entailed, strict=True)]
    assert float(row["test_set_error"].sel(test_set="shifted")) == 100 * np.mean(wrong)
    assert float(row["train_error"]) == float(row["test_set_error"].sel(test_set="test"))


def test_hyperparameters_are_read_from_the_names_of_files():
    name = "B_16-i21k-300ep-lr_0.001-aug_medium1-wd_0.03-do_0.1-sd_0.1--imagenet2012-steps_20k"
    zoo = load("released-vit21k-zoo", "paper")
    wanted = {**zoo.file.hyperparameters, "other": "x_(.)"}
    assert _released.hyperparameters(f"{name}-lr_0.01-res_224", wanted, None) == {
        **{"augmentation": "medium", "weight_decay": 0.03, "dropout": 0.1, "lr": 0.01},
        "other": None,
    }
    (pattern,) = zoo.file.arguments["networks"]
    assert fnmatch.fnmatch(f"{name}-lr_0.01-res_224.npz", pattern)
