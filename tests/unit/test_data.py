"""Data sets and what the networks see of them."""

import numpy as np
import pytest
import torch

from flatlab.data import DataError, load
from flatlab.splits import prepare

UNIT = {"classes": "all", "scaling": "unit"}


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def rows(inputs, labels):
    """Images with their labels as sortable rows."""
    return sorted(
        (*image.ravel().tolist(), int(label)) for image, label in zip(inputs, labels, strict=True)
    )


def sentence(error):
    """The message of an error, which must be one sentence."""
    message = str(error.value)
    assert "\n" not in message
    return message


def test_the_two_parts_of_digits_are_all_of_it_without_overlap(digits):
    from sklearn.datasets import load_digits

    published = load_digits()
    assert digits.sizes["train_sample"] + digits.sizes["test_sample"] == 1797
    parts = [
        rows(digits[f"{part}_inputs"].values, digits[f"{part}_labels"].values)
        for part in ("train", "test")
    ]
    assert sorted(parts[0] + parts[1]) == rows(published.images.astype(int), published.target)


def test_every_fifth_image_of_each_digit_is_for_testing(digits):
    for label in range(10):
        train, test = (int((digits[f"{part}_labels"] == label).sum()) for part in ("train", "test"))
        assert test == -(-(train + test) // 5)  # rounded up


def test_digits_are_bytes_from_0_to_16_of_8_by_8_pixels(digits):
    assert digits.attrs["maximum"] == 16
    for part in ("train", "test"):
        inputs = digits[f"{part}_inputs"]
        assert inputs.dtype == np.uint8
        assert inputs.shape[1:] == (8, 8)
        assert (int(inputs.min()), int(inputs.max())) == (0, 16)


def test_the_split_of_digits_is_the_same_every_time(digits):
    np.random.default_rng(5).random()
    assert load("digits").identical(digits)


def test_unit_scaling_puts_inputs_between_0_and_1(digits):
    splits = prepare(digits, UNIT)
    for part in ("train", "test"):
        inputs = getattr(splits, part).inputs
        assert (float(inputs.min()), float(inputs.max())) == (0, 1)
        assert np.array_equal(inputs.numpy()[:, 0] * 16, digits[f"{part}_inputs"].values)


@pytest.mark.parametrize("classes", ["all", [3, 8]])
def test_standardized_training_inputs_have_mean_0_and_variance_1(classes, digits):
    splits = prepare(digits, {"classes": classes, "scaling": "standardized"})
    assert float(splits.train.inputs.mean()) == pytest.approx(0, abs=1e-12)
    assert float(splits.train.inputs.var(correction=0)) == pytest.approx(1, rel=1e-12)


def test_test_inputs_are_standardized_by_the_moments_of_the_training_inputs(digits):
    splits = prepare(digits, {"classes": "all", "scaling": "standardized"})
    train, test = (digits[f"{part}_inputs"].values.astype(float) for part in ("train", "test"))
    expected = (test - train.mean()) / train.std()
    assert splits.test.inputs.numpy()[:, 0] == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("classes", [[0, 1], [7, 2], [9, 0, 4]])
def test_classes_are_renumbered_in_the_order_given(classes, digits):
    splits = prepare(digits, {"classes": classes, "scaling": "unit"})
    for part in ("train", "test"):
        labels, split = digits[f"{part}_labels"].values, getattr(splits, part)
        kept = np.isin(labels, classes)
        assert [classes[label] for label in split.labels.tolist()] == labels[kept].tolist()
        images = digits[f"{part}_inputs"].values[kept]
        assert np.array_equal(split.inputs.numpy()[:, 0] * 16, images)
    assert splits.outputs == len(classes)


@pytest.mark.parametrize("outputs", [None, 10, 13])
def test_targets_are_one_for_the_class_and_zero_for_all_other_outputs(outputs, digits):
    splits = prepare(digits, UNIT, outputs)
    assert splits.outputs == (outputs or 10)
    for split in (splits.train, splits.test):
        assert split.targets.shape == (len(split.labels), splits.outputs)
        assert (split.targets.sum(1) == 1).all()
        assert (split.targets[torch.arange(len(split.labels)), split.labels] == 1).all()
        assert not split.targets[:, 10:].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_inputs_and_targets_have_the_precision_asked_for(dtype, stripes):
    split = prepare(stripes, UNIT, dtype=dtype).train
    assert split.inputs.dtype == split.targets.dtype == dtype


@pytest.mark.parametrize(("classes", "culprit"), [([0, 12], "12"), ([-1, 0], "-1")])
def test_a_class_that_does_not_exist_is_refused(classes, culprit, digits):
    with pytest.raises(DataError) as error:
        prepare(digits, {"classes": classes, "scaling": "unit"})
    assert f"digits has no class {culprit}" in sentence(error)


def test_a_class_named_twice_is_refused(digits):
    with pytest.raises(DataError, match="3"):
        prepare(digits, {"classes": [3, 3], "scaling": "unit"})


def test_fewer_outputs_than_classes_are_refused(digits):
    with pytest.raises(DataError) as error:
        prepare(digits, UNIT, outputs=9)
    assert "9 outputs cannot stand for 10 classes" in sentence(error)


def test_a_subset_is_drawn_without_repetition_and_keeps_images_with_their_labels(digits):
    split = prepare(digits, UNIT).train
    subset = split.subset(200, seed=0)
    chosen = rows(subset.inputs.numpy(), subset.labels.numpy())
    everything = rows(split.inputs.numpy(), split.labels.numpy())
    assert len(chosen) == 200
    for row in set(chosen):
        assert chosen.count(row) <= everything.count(row)
    assert torch.equal(subset.targets.argmax(1), subset.labels)


def test_a_subset_is_fixed_by_its_seed(digits):
    split = prepare(digits, UNIT).train
    first, again, other = (split.subset(50, seed).inputs for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_subset_of_all_samples_has_each_of_them_once(digits):
    split = prepare(digits, UNIT).test
    subset = split.subset(len(split.labels), seed=0)
    assert rows(subset.inputs, subset.labels) == rows(split.inputs, split.labels)


def test_a_subset_larger_than_the_data_is_refused(digits):
    with pytest.raises(DataError) as error:
        prepare(digits, UNIT).test.subset(400, seed=0)
    count = digits.sizes["test_sample"]
    assert f"400 samples asked for, there are {count}" in sentence(error)


def test_the_data_folder_is_the_argument_else_the_environment_else_data(tmp_path, monkeypatch):
    def place(folder=None):
        with pytest.raises(DataError) as error:
            load("image-folder", folder)
        return sentence(error).partition(" is not a folder")[0]

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
