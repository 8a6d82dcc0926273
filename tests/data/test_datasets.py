"""Data sets and what the networks see of them."""

import numpy as np
import pytest
import torch

from flatlab.data import DataError, dataset, load
from flatlab.data import _tensors as splitting
from flatlab.data._tensors import prepare
from tests.lab.train.packs import images
from tests.refusals import refusal

UNIT = {"classes": "all", "scaling": "unit"}


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def rows(inputs, labels):
    """Images with their labels as sortable rows."""
    pairs = zip(inputs, labels, strict=True)
    return sorted((*image.ravel().tolist(), int(label)) for image, label in pairs)


@pytest.fixture
def points():
    """Samples in classes whose inputs are six numbers each."""
    draw = np.random.default_rng(0)
    parts = [(draw.integers(0, 9, size=(count, 6)), np.arange(count) % 3) for count in (9, 6)]
    return dataset(*parts, maximum=9, classes=["a", "b", "c"], title="points")


def test_digits_are_all_that_are_published_in_two_parts(digits):
    """Bytes from 0 to 16 of 8 by 8 pixels; every fifth image of each digit is for testing."""
    from sklearn.datasets import load_digits

    published, parts = load_digits(), []
    assert digits.attrs["maximum"] == 16
    for part in ("train", "test"):
        inputs = digits[f"{part}_inputs"]
        assert inputs.dtype == np.uint8
        assert inputs.shape[1:] == (8, 8)
        assert (int(inputs.min()), int(inputs.max())) == (0, 16)
        parts += rows(inputs.values, digits[f"{part}_labels"].values)
    assert len(parts) == 1797
    assert sorted(parts) == rows(published.images.astype(int), published.target)
    for label in range(10):
        train, test = (int((digits[f"{part}_labels"] == label).sum()) for part in ("train", "test"))
        assert test == -(-(train + test) // 5)  # rounded up
    np.random.default_rng(5).random()
    assert load("digits").identical(digits)  # every time


AXES = {"unit": (), "standardized": None, "channels": (0, 2, 3), "components": 0}
"""Those over which the moments of each scaling are taken."""


def seen(raw, scaling, classes):
    """What networks see by the definitions, in numpy: images and labels of both parts."""
    both, labels = [], []
    for part in ("train", "test"):
        inputs, given = raw[f"{part}_inputs"].values, raw[f"{part}_labels"].values.tolist()
        kept = [number for number, label in enumerate(given) if label in classes]
        both.append(inputs[kept].reshape(len(kept), -1, *inputs.shape[-2:]).astype(float))
        labels.append([classes.index(given[number]) for number in kept])
    shift, spread = 0, raw.attrs["maximum"]
    if scaling != "unit":
        shift, spread = (f(both[0], AXES[scaling], keepdims=True) for f in (np.mean, np.std))
        spread[spread == 0] = np.inf  # what never varies is 0
    return zip([(images - shift) / spread for images in both], labels, strict=True)


KINDS = {  # the images, their classes, and the outputs of the network
    "grey": ("digits", "all", None),
    "of two digits": ("digits", [3, 8], None),
    "in another order": ("digits", [9, 0, 4], 10),
    "in colours": ("colours", "all", 13),
}


@pytest.mark.parametrize("scaling", AXES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("in_memory", [2000, 7])
def test_inputs_are_scaled_by_moments_of_training_images_and_targets_are_one_for_the_class(
    in_memory, kind, scaling, digits, monkeypatch
):
    monkeypatch.setattr(splitting, "MOMENTS", in_memory)
    name, classes, outputs = KINDS[kind]
    raw = digits
    if name == "colours":
        raw = images((3, 5, 4), 40)
        raw["train_inputs"][:, 2] = 7  # a channel that never varies
    dtype = torch.float32 if in_memory == 7 else torch.float64
    splits = prepare(raw, {"classes": classes, "scaling": scaling}, outputs, dtype)
    classes = [*range(len(raw.attrs["classes"]))] if classes == "all" else classes
    assert splits.outputs == (outputs or len(classes))
    close = {"rtol": 1e-6, "atol": 1e-6} if in_memory == 7 else {"rtol": 1e-12, "atol": 1e-12}
    expected = zip((splits.train, splits.test), seen(raw, scaling, classes), strict=True)
    for split, (inputs, labels) in expected:
        assert split.inputs.dtype == split.targets.dtype == dtype
        np.testing.assert_allclose(split.inputs, inputs, **close)
        assert split.labels.tolist() == labels
        assert np.array_equal(split.targets, np.eye(splits.outputs)[labels])


@pytest.mark.parametrize("scaling", ["unit", "standardized", "channels", "components"])
def test_a_scale_is_a_factor_and_all_samples_have_the_same_moments(scaling, digits):
    settings = {"classes": "all", "scaling": scaling}
    whole, larger = prepare(digits, settings), prepare(digits, {**settings, "scale": 1.5})
    for part in ("train", "test"):
        torch.testing.assert_close(getattr(larger, part).inputs, 1.5 * getattr(whole, part).inputs)
    part = prepare(digits, settings | {"samples": 40})
    for name in ("inputs", "labels", "targets"):
        assert torch.equal(getattr(part.train, name), getattr(whole.train, name)[:40])
    assert torch.equal(part.test.inputs, whole.test.inputs)


def test_of_data_that_lie_class_by_class_the_first_samples_are_of_all_classes(digits):
    """A folder of images: its first samples would be of one class."""
    order = np.argsort(digits["train_labels"].values, kind="stable")
    by_class = digits.isel(train_sample=order)
    labels = prepare(by_class, UNIT | {"samples": 200}).train.labels
    assert set(labels.tolist()) == set(range(10))
    again = prepare(by_class, UNIT | {"samples": 100}).train.labels
    assert torch.equal(again, labels[:100])


PIXELS = {"classes": "all", "scaling": "standardized"}


def test_more_pixels_are_each_the_nearest_there_was(digits):
    """Of both splits, and behind the scaling: its moments are those of the images as they are."""
    whole = prepare(digits, PIXELS)
    twice = prepare(digits, {**PIXELS, "pixels": 16})
    for before, after in ((whole.train, twice.train), (whole.test, twice.test)):
        assert after.inputs.shape[1:] == (1, 16, 16)
        for row, column in ((0, 0), (1, 0), (0, 1), (1, 1)):
            assert torch.equal(after.inputs[..., row::2, column::2], before.inputs)
    assert torch.equal(prepare(digits, {**PIXELS, "pixels": 8}).test.inputs, whole.test.inputs)
    uneven = prepare(digits, {**PIXELS, "pixels": 11}).train.inputs
    places = torch.arange(11) * 8 // 11
    assert torch.equal(uneven, whole.train.inputs[..., places, :][..., places])


def test_fewer_pixels_are_the_means_of_an_area(digits):
    whole = prepare(digits, PIXELS).train.inputs
    half = prepare(digits, {**PIXELS, "pixels": 4}).train.inputs
    corners = [whole[..., row::2, column::2] for row in (0, 1) for column in (0, 1)]
    assert torch.allclose(half, sum(corners) / 4, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "change", "outputs", "sentence"),
    [
        ("points", {"scaling": "channels"}, None, "data.scaling is channels, but these data are"),
        ("points", {"pixels": 8}, None, "data.pixels is 8, but these data are not images"),
        ("eight-points", {"scaling": "none", "pixels": 8}, None, "data.pixels must be all"),
        ("digits", {"samples": 2000}, None, "data.samples is 2000, but there are 1433"),
        ("digits", {"classes": [0, 12]}, None, "digits has no class 12"),
        ("digits", {"classes": [-1, 0]}, None, "digits has no class -1"),
        ("digits", {"classes": [3, 3]}, None, "3"),
        ("digits", {}, 9, "9 outputs cannot represent 10 classes"),
    ],
)
def test_what_the_data_do_not_have_is_refused(name, change, outputs, sentence, points):
    raw = points if name == "points" else load(name)
    assert sentence in refusal(DataError, prepare, raw, UNIT | change, outputs)


def test_a_subset_is_drawn_by_its_seed_without_repetition_and_keeps_images_with_labels(digits):
    split = prepare(digits, UNIT).train
    subset = split.subset(200, seed=0)
    chosen = rows(subset.inputs.numpy(), subset.labels.numpy())
    everything = rows(split.inputs.numpy(), split.labels.numpy())
    assert len(chosen) == 200
    for row in set(chosen):
        assert chosen.count(row) <= everything.count(row)
    assert torch.equal(subset.targets.argmax(1), subset.labels)
    first, again, other = (split.subset(50, seed).inputs for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    test = prepare(digits, UNIT).test
    whole = test.subset(len(test.labels), seed=0)
    assert rows(whole.inputs, whole.labels) == rows(test.inputs, test.labels)
    words = f"400 samples requested, but there are only {digits.sizes['test_sample']}"
    assert words in refusal(DataError, test.subset, 400, seed=0)


def test_the_data_folder_is_the_argument_else_the_environment_else_data(tmp_path, monkeypatch):
    def place(folder=None):
        return refusal(DataError, load, "image-folder", folder).partition(" is not a folder")[0]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLATLAB_DATA", "there")
    assert place("here") == "here"
    assert place() == "there"
    monkeypatch.delenv("FLATLAB_DATA")
    assert place() == "data"


def test_a_gpu_that_is_not_there_is_refused_in_words(stripes, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DataError, match="no GPU here; set device: cpu"):
        prepare(stripes, {"classes": "all", "scaling": "unit"}, device="cuda")
