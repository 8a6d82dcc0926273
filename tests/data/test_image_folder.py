"""Images sorted into one folder per class."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from flatlab.data import load
from tests.data.folders import pack, refusal, write


def test_every_fifth_image_of_a_class_is_for_testing(tmp_path):
    data = load("image-folder", str(write(tmp_path / "pets")))
    assert data.attrs["classes"] == ["cat", "dog"]
    assert data["train_inputs"].shape == (16, 4, 6)
    assert data["test_labels"].values.tolist() == [0, 0, 1, 1]
    assert data["test_inputs"].values[:, 0, 0].tolist() == [4, 9, 4, 9]
    assert data.attrs["title"] == "pets"


def test_colours_come_first_and_grey_images_among_them_become_colours(tmp_path):
    write(tmp_path, classes=("a", "b"), mode="RGB")
    Image.new("L", (6, 4), 7).save(tmp_path / "a" / "000.png")
    inputs = load("image-folder", str(tmp_path))["train_inputs"].values
    assert inputs.shape == (16, 3, 4, 6)
    assert np.all(inputs[0] == 7)
    assert inputs[1, :, 0, 0].tolist() == [1, 0, 255]


@pytest.mark.parametrize("part", ["train", "test"])
def test_one_part_in_grey_becomes_colours_where_the_other_has_them(part, tmp_path):
    for name in ("train", "test"):
        write(tmp_path / name, mode="L" if name == part else "RGB")
    data = load("image-folder", str(tmp_path))
    assert data["train_inputs"].shape == data["test_inputs"].shape == (20, 3, 4, 6)
    assert data[f"{part}_inputs"].values[9, :, 0, 0].tolist() == [9, 9, 9]


def test_parts_of_different_sizes_are_refused(tmp_path):
    write(tmp_path / "train")
    write(tmp_path / "test", size=(7, 7))
    image = tmp_path / "test" / "cat" / "000.png"
    assert f"{image} has (7, 7) pixels, others have (4, 6); resize them" in refusal(tmp_path)


def test_folders_train_and_test_are_the_split_and_the_title_is_the_name_of_theirs(
    pets, monkeypatch
):
    data = load("image-folder", str(pets))
    assert (data.sizes["train_sample"], data.sizes["test_sample"]) == (10, 6)
    (pets.parent / "link").symlink_to(pets)
    assert load("image-folder", f"{pets}/").attrs["title"] == "pets"
    assert load("image-folder", f"{pets}/../link").attrs["title"] == "link"
    monkeypatch.chdir(pets)
    assert load("image-folder", ".").attrs["title"] == "pets"


def test_a_class_may_be_called_train(tmp_path):
    folder = write(tmp_path / "traffic", classes=("bus", "train"))
    assert load("image-folder", str(folder)).attrs["classes"] == ["bus", "train"]


def test_hidden_files_and_folders_do_not_count(tmp_path):
    folder = write(tmp_path / "pets")
    (folder / ".cache").mkdir()
    (folder / "cat" / "._000.png").write_bytes(b"no image")
    archive = pack(folder, tmp_path / "pets.zip")
    for place in (folder, archive):
        assert load("image-folder", str(place)).sizes["train_sample"] == 16


def test_what_cannot_be_used_is_named(tmp_path):
    assert "is not a folder or an archive" in refusal(tmp_path / "none")
    assert "at least two classes" in refusal(tmp_path)
    folder = write(tmp_path / "data")
    (folder / "empty").mkdir()
    assert f"{folder / 'empty'} has no images" in refusal(folder)
    (folder / "empty").rmdir()
    image = folder / "cat" / "003.png"
    whole = image.read_bytes()
    for content in (b"no image", b"", whole[:40]):
        image.write_bytes(content)
        assert f"{image} cannot be read as an image; replace or delete it" in refusal(folder)
    Image.new("L", (9, 9)).save(image)
    assert f"{image} has (9, 9) pixels, others have (4, 6)" in refusal(folder)
    Image.new("I;16", (6, 4)).save(image)
    assert f"{image} has more than 8 bits per colour (I;16); convert it" in refusal(folder)
    write(tmp_path / "split" / "train")
    write(tmp_path / "split" / "test", classes=("cat", "cow"))
    assert "different classes" in refusal(tmp_path / "split")


def test_cifar10_as_jpeg_holds_50000_and_10000_images():
    folder = os.environ.get("FLATLAB_DATA")
    if not folder:
        pytest.skip("FLATLAB_DATA does not name a folder of data sets")
    if not Path(folder, "cifar10-jpeg").is_dir():
        pytest.skip("the folder FLATLAB_DATA does not have a folder cifar10-jpeg")
    raw = load("image-folder", str(Path(folder, "cifar10-jpeg")))
    for part, count in (("train", 50_000), ("test", 10_000)):
        assert raw[f"{part}_inputs"].shape == (count, 3, 32, 32)
        assert raw[f"{part}_inputs"].dtype == np.uint8
        assert raw[f"{part}_labels"].values.tolist() == sorted([*range(10)] * (count // 10))
    assert raw.attrs["title"] == "cifar10-jpeg"
    means = raw["train_inputs"].values.mean((0, 2, 3)) / 255
    assert means == pytest.approx([0.491, 0.482, 0.447], abs=1e-3)
