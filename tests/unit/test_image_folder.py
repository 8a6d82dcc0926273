"""Images sorted into one folder per class."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from flatlab.data import DataError, load


def write(folder, classes=("cat", "dog"), count=10, mode="L", size=(6, 4)):
    """Images whose pixels all have the value of their place in the class."""
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(count):
            colour = number if mode == "L" else (number, 0, 255)
            Image.new(mode, size, colour).save(folder / name / f"{number:03}.png")
    return folder


def test_every_fifth_image_of_a_class_is_for_testing(tmp_path):
    data = load("image-folder", str(write(tmp_path / "pets")))
    assert data.attrs["classes"] == ["cat", "dog"]
    assert data["train_inputs"].shape == (16, 4, 6)
    assert data["test_labels"].values.tolist() == [0, 0, 1, 1]
    assert data["test_inputs"].values[:, 0, 0].tolist() == [4, 9, 4, 9]
    assert data.attrs["title"] == "pets"


def test_folders_train_and_test_are_the_split(tmp_path):
    write(tmp_path / "train", count=3)
    write(tmp_path / "test", count=2)
    data = load("image-folder", str(tmp_path))
    assert data.sizes["train_sample"] == 6
    assert data.sizes["test_sample"] == 4


def test_colours_come_first_and_grey_images_among_them_become_colours(tmp_path):
    write(tmp_path, classes=("a", "b"), mode="RGB")
    Image.new("L", (6, 4), 7).save(tmp_path / "a" / "000.png")
    inputs = load("image-folder", str(tmp_path))["train_inputs"].values
    assert inputs.shape == (16, 3, 4, 6)
    assert np.all(inputs[0] == 7)
    assert inputs[1, :, 0, 0].tolist() == [1, 0, 255]


def test_what_cannot_be_used_is_named(tmp_path):
    with pytest.raises(DataError, match="is not a folder"):
        load("image-folder", str(tmp_path / "none"))
    with pytest.raises(DataError, match="at least two classes"):
        load("image-folder", str(tmp_path))
    folder = write(tmp_path / "data")
    (folder / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty has no images"):
        load("image-folder", str(folder))
    (folder / "empty").rmdir()
    (folder / "cat" / "003.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"003\.png cannot be read"):
        load("image-folder", str(folder))
    Image.new("L", (9, 9)).save(folder / "cat" / "003.png")
    with pytest.raises(DataError, match=r"003\.png has \(9, 9\) pixels, others have \(4, 6\)"):
        load("image-folder", str(folder))
    write(tmp_path / "split" / "train")
    write(tmp_path / "split" / "test", classes=("cat", "cow"))
    with pytest.raises(DataError, match="different classes"):
        load("image-folder", str(tmp_path / "split"))
