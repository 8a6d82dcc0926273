"""Test sets of corrupted images: made, published, and as experiments declare them."""

import re

import numpy as np
import pytest
import torch

from flatlab.core.schema import PlanError, convert, plain
from flatlab.data import DataError, corruptions, load
from flatlab.data._tensors import prepare
from flatlab.data.corruptions import MADE, corrupted
from flatlab.lab.kinds._sections import Corrupted, Measure
from tests.lab.train.packs import images

CHOSEN = {"corruptions": "all", "severity": 3, "size": 30, "source": "made", "seed": 0}
ALL_CLASSES = {"classes": "all", "scaling": "unit"}


def made(raw, classes="all", folder=None, **changes):
    return corruptions.test_set(raw, CHOSEN | changes, classes, folder)


class TestSets:
    def test_each_corruption_has_the_same_images(self):
        raw = load("digits")
        inputs, labels = made(raw, size=28, severity=1)
        assert inputs.shape == (28, 8, 8)
        assert (labels.reshape(14, 2) == labels[:2]).all()
        drawn = np.sort(np.random.default_rng(0).permutation(raw.sizes["test_sample"])[:2])
        assert labels[:2].tolist() == raw["test_labels"].values[drawn].tolist()
        clean = raw["test_inputs"].values[drawn] / 16
        for number, name in enumerate(MADE):
            expected = corrupted(clean, name, 1)
            assert np.array_equal(inputs[2 * number : 2 * number + 2], expected * 16)

    def test_the_last_corruption_has_what_is_left(self):
        whole, part = (made(load("digits"), size=size) for size in (42, 40))
        assert [len(each) for each in part] == [40, 40]
        for ours, all_ in zip(part, whole, strict=True):
            assert np.array_equal(ours, all_[:40])

    def test_only_the_chosen_classes_and_corruptions_are_there(self):
        inputs, labels = made(load("digits"), [3, 8], corruptions=["contrast"], size=20)
        assert len(inputs) == 20
        assert set(labels.tolist()) == {3, 8}

    def test_they_are_scaled_as_the_test_images_are(self):
        raw = load("digits")
        identity = raw["test_inputs"].values[:9].astype(float), raw["test_labels"].values[:9]
        for change in ({}, {"scaling": "components"}, {"pixels": 4}, {"classes": [2, 0, 1]}):
            splits = prepare(raw, ALL_CLASSES | change, further={"again": identity})
            again, test = splits.further["again"], splits.test
            assert torch.equal(again.inputs, test.inputs[: len(again)])
            assert torch.equal(again.labels, test.labels[: len(again)])
            assert torch.equal(again.targets, test.targets[: len(again)])
            assert len(again) == 9 or "classes" in change

    def test_too_many_images_are_refused(self):
        with pytest.raises(DataError) as error:
            made(load("digits"), size=5097)
        expected = "size is 5097, but there are 364 images of each of 14 corruptions"
        assert str(error.value) == f"measure.test_sets: {expected}"

    @pytest.mark.parametrize("name", ["eight-points", "gaussian-pair"])
    def test_data_without_images_are_refused(self, name):
        with pytest.raises(DataError, match=f"{name} has no images; leave them out"):
            made(load(name))


@pytest.fixture
def published(tmp_path):
    """The files of CIFAR-10-C, made up: four images at each severity."""
    folder = tmp_path / "CIFAR-10-C"
    folder.mkdir()
    generator = np.random.default_rng(0)
    np.save(folder / "labels.npy", np.tile([3, 1, 0, 3], 5))
    for name in (*MADE, "frost"):
        pixels = generator.integers(0, 256, (20, 32, 32, 3)).astype(np.uint8)
        np.save(folder / f"{name.replace('-', '_')}.npy", pixels)
    return tmp_path


def cifar10():
    raw = images((3, 32, 32), 20, 10)
    return raw.assign_attrs(title="CIFAR-10")


class TestPublished:
    def test_published_images_are_read_with_their_labels(self, published):
        options = {"source": "published", "severity": 2}
        inputs, labels = made(cifar10(), folder=published, size=60, **options)
        assert inputs.shape == (60, 3, 32, 32)
        assert (labels.reshape(15, 4) == [3, 1, 0, 3]).all()
        for number, name in enumerate((*MADE, "frost")):
            pixels = np.load(published / "CIFAR-10-C" / f"{name.replace('-', '_')}.npy")[4:8]
            part = inputs[4 * number : 4 * number + 4].transpose(0, 2, 3, 1)
            assert part == pytest.approx(pixels.astype(float), abs=1e-12)

    def test_classes_are_chosen_by_the_published_labels(self, published):
        options = {"source": "published", "corruptions": ["fog"], "size": 3}
        _, labels = made(cifar10(), [3, 0], folder=published, **options)
        assert sorted(labels.tolist()) == [0, 3, 3]

    @pytest.mark.parametrize("name", ["frost", "labels"])
    def test_a_file_that_is_missing_or_damaged_is_named(self, name, published):
        path = published / "CIFAR-10-C" / f"{name}.npy"
        options = {"source": "published", "corruptions": ["frost"], "size": 2}
        path.write_bytes(path.read_bytes()[:50])
        with pytest.raises(DataError, match=re.escape(f"{path} is damaged; replace it")):
            made(cifar10(), folder=published, **options)
        path.unlink()
        with pytest.raises(DataError) as error:
            made(cifar10(), folder=published, **options)
        remedy = "put the files of CIFAR-10-C there, or set source: made"
        assert str(error.value) == f"{path} is missing; {remedy}"

    def test_images_that_do_not_fit_their_labels_are_refused(self, published):
        np.save(published / "CIFAR-10-C/labels.npy", np.zeros(10, int))
        with pytest.raises(DataError, match=r"has images \(20, 32, 32, 3\) and 10 labels"):
            made(cifar10(), folder=published, source="published", size=2)

    def test_they_are_for_networks_on_cifar_10_alone(self, published):
        with pytest.raises(DataError, match="are not those of digits; set source: made"):
            made(load("digits"), folder=published, source="published")


MEASURE = {
    "families": ["accuracy"],
    "samples": {"train": {"split": "train", "size": 9, "seed": 0, "only": "all"}},
    "precision": "float64",
    "diverged_below": None,
}


class TestDeclarations:
    def test_every_corruption_that_can_be_made_may_be_named(self):
        names = [*MADE, "frost"]
        record = convert(
            {"corruptions": names, "severity": 5, "size": 9, "source": "published"}, Corrupted, ""
        )
        assert plain(record)["corruptions"] == names

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"hard": {"corruptions": ["frost"]}}, "test_sets.hard: frost needs photographs"),
            ({"test": {}}, "test_sets.test: is the name of the clean test set"),
            ({"hard": {"severity": 6}}, r"severity: expected `int` <= 5"),
            ({"hard": {"corruptions": ["smog"]}}, "unknown value 'smog'"),
        ],
    )
    def test_what_cannot_be_had_is_refused(self, change, sentence):
        sets = {name: {"severity": 5, "size": 9} | keys for name, keys in change.items()}
        with pytest.raises(PlanError, match=sentence):
            convert({**MEASURE, "test_sets": sets}, Measure, "measure.")

    def test_they_need_the_family_that_measures_them(self):
        sets = {"hard": {"severity": 5, "size": 9}}
        with pytest.raises(PlanError, match="test_sets: needs the family accuracy"):
            convert({**MEASURE, "families": ["geometry"], "test_sets": sets}, Measure, "measure.")
