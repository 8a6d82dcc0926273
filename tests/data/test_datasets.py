"""Data sets and what the networks see of them."""

import numpy as np
import pytest
import torch

from flatlab.data import DataError, dataset, load
from flatlab.data import _tensors as splitting
from flatlab.data._tensors import prepare
from tests.train.packs import images

UNIT = {"classes": "all", "scaling": "unit"}


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def rows(inputs, labels):
    """Images with their labels as sortable rows."""
    return sorted(
        (*image.ravel().tolist(), int(label)) for image, label in zip(inputs, labels, strict=True)
    )


@pytest.fixture
def points():
    """Samples in classes whose inputs are six numbers each."""
    draw = np.random.default_rng(0)
    parts = [(draw.integers(0, 9, size=(count, 6)), np.arange(count) % 3) for count in (9, 6)]
    return dataset(*parts, maximum=9, classes=["a", "b", "c"], title="points")


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


@pytest.mark.parametrize("classes", ["all", [3, 8]])
def test_components_have_mean_0_and_variance_1_by_themselves(classes, digits):
    """Those that never vary are 0, also in test samples."""
    splits = prepare(digits, {"classes": classes, "scaling": "components"})
    inputs = splits.train.inputs.flatten(1)
    assert inputs.mean(0).abs().max() < 1e-12
    spread = inputs.std(0, correction=0)
    varies = spread > 0
    assert 0 < int((~varies).sum()) < 32
    torch.testing.assert_close(spread[varies], torch.ones_like(spread[varies]))
    assert not splits.test.inputs.flatten(1)[:, ~varies].any()
    kept = np.isin(digits["train_labels"], range(10) if classes == "all" else classes)
    train = digits["train_inputs"].values[kept].reshape(kept.sum(), -1).astype(float)
    test = digits["test_inputs"].values.reshape(-1, 64).astype(float)
    here = np.isin(digits["test_labels"], range(10) if classes == "all" else classes)
    columns = varies.numpy()
    expected = (test[here][:, columns] - train.mean(0)[columns]) / train.std(0)[columns]
    np.testing.assert_allclose(splits.test.inputs.flatten(1)[:, columns], expected, rtol=1e-12)


def test_channels_have_mean_0_and_variance_1_over_all_training_images():
    """With the moments of the training images in the test images too; a constant channel is 0."""
    from torchvision.transforms.functional import normalize

    raw = images((3, 5, 4), 40)
    raw["train_inputs"][:, 2] = 7
    splits = prepare(raw, {"classes": "all", "scaling": "channels"})
    numbers = torch.from_numpy(raw["train_inputs"].values).double()
    means = [float(numbers[:, channel].mean()) for channel in range(2)]
    deviations = [float(numbers[:, channel].std(correction=0)) for channel in range(2)]
    for part in ("train", "test"):
        inputs, before = getattr(splits, part).inputs, raw[f"{part}_inputs"].values
        expected = normalize(torch.from_numpy(before[:, :2]).double(), means, deviations)
        torch.testing.assert_close(inputs[:, :2], expected, rtol=1e-13, atol=1e-13)
        assert not inputs[:, 2].any()
    for channel in range(2):
        assert float(splits.train.inputs[:, channel].mean()) == pytest.approx(0, abs=1e-13)
        spread = splits.train.inputs[:, channel].std(correction=0)
        assert float(spread) == pytest.approx(1, rel=1e-13)


def test_grey_images_have_one_channel(digits):
    channels, all_ = (
        prepare(digits, {"classes": [3, 8], "scaling": scaling})
        for scaling in ("channels", "standardized")
    )
    assert torch.equal(channels.train.inputs, all_.train.inputs)
    assert torch.equal(channels.test.inputs, all_.test.inputs)


def test_channels_of_what_are_no_images_are_refused(points):
    with pytest.raises(DataError) as error:
        prepare(points, {"classes": "all", "scaling": "channels"})
    assert "data.scaling is channels, but these data are not images" in sentence(error)


@pytest.mark.parametrize("scaling", ["standardized", "channels", "components"])
def test_moments_do_not_depend_on_how_many_samples_are_in_memory(scaling, monkeypatch):
    raw, settings = images((3, 5, 4), 40), {"classes": "all", "scaling": scaling}
    whole = prepare(raw, settings)
    monkeypatch.setattr(splitting, "MOMENTS", 7)
    parts = prepare(raw, settings)
    torch.testing.assert_close(parts.train.inputs, whole.train.inputs, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(parts.test.inputs, whole.test.inputs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scaling", ["unit", "standardized", "channels", "components"])
def test_a_scale_is_a_factor_on_the_inputs_of_both_splits(scaling, digits):
    plain = prepare(digits, {"classes": "all", "scaling": scaling})
    larger = prepare(digits, {"classes": "all", "scaling": scaling, "scale": 1.5})
    for part in ("train", "test"):
        torch.testing.assert_close(getattr(larger, part).inputs, 1.5 * getattr(plain, part).inputs)


@pytest.mark.parametrize("scaling", ["unit", "standardized", "channels", "components"])
def test_the_first_samples_are_scaled_by_the_moments_of_all(scaling, digits):
    settings = {"classes": "all", "scaling": scaling}
    whole, part = prepare(digits, settings), prepare(digits, settings | {"samples": 40})
    assert torch.equal(part.train.inputs, whole.train.inputs[:40])
    assert torch.equal(part.train.labels, whole.train.labels[:40])
    assert torch.equal(part.train.targets, whole.train.targets[:40])
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
    uneven = prepare(digits, {**PIXELS, "pixels": 11}).train.inputs
    places = torch.arange(11) * 8 // 11
    assert torch.equal(uneven, whole.train.inputs[..., places, :][..., places])


def test_fewer_pixels_are_the_means_of_an_area(digits):
    whole = prepare(digits, PIXELS).train.inputs
    half = prepare(digits, {**PIXELS, "pixels": 4}).train.inputs
    corners = [whole[..., row::2, column::2] for row in (0, 1) for column in (0, 1)]
    assert torch.allclose(half, sum(corners) / 4, rtol=0, atol=1e-14)


def test_as_many_pixels_as_there_are_change_nothing(digits):
    whole, same = (prepare(digits, {**PIXELS, **more}) for more in ({}, {"pixels": 8}))
    assert torch.equal(whole.test.inputs, same.test.inputs)


def test_pixels_of_what_are_no_images_are_refused(points):
    with pytest.raises(DataError) as error:
        prepare(load("eight-points"), {"classes": "all", "scaling": "none", "pixels": 8})
    assert "data.pixels must be all" in sentence(error)
    with pytest.raises(DataError) as error:
        prepare(points, {**PIXELS, "pixels": 8})
    assert "data.pixels is 8, but these data are not images" in sentence(error)


def test_more_training_samples_than_there_are_are_refused(digits):
    with pytest.raises(DataError, match=r"data\.samples is 2000, but there are 1433"):
        prepare(digits, UNIT | {"samples": 2000})


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
    assert "9 outputs cannot represent 10 classes" in sentence(error)


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
    assert f"400 samples requested, but there are only {count}" in sentence(error)


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
