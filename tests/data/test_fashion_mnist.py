"""Fashion-MNIST: the official files, whole or damaged, there or not."""

import gzip
import hashlib
import os
import socket
from pathlib import Path

import numpy as np
import pytest

from flatlab.data import DataError, _sources, load

NAMES = [
    f"{part}-{kind}-ubyte.gz"
    for part in ("train", "t10k")
    for kind in ("images-idx3", "labels-idx1")
]
COUNTS = {"train": 5, "t10k": 3}


def sentence(error):
    """The message of an error, which must be one sentence."""
    message = str(error.value)
    assert "\n" not in message
    return message


@pytest.fixture
def files(monkeypatch):
    """Small files in the official format whose checksums pass for the official ones."""
    from torchvision.datasets import FashionMNIST

    contents = {}
    for name in NAMES:
        count = COUNTS[name.partition("-")[0]]
        if "images" in name:
            axes, values = (count, 28, 28), np.arange(count * 784) % 251
        else:
            axes, values = (count,), np.arange(count) + 4
        header = np.array([0x803 if len(axes) == 3 else 0x801, *axes], ">i4").tobytes()
        contents[name] = gzip.compress(header + values.astype(np.uint8).tobytes())
    checksums = [(name, hashlib.md5(content).hexdigest()) for name, content in contents.items()]
    monkeypatch.setattr(FashionMNIST, "resources", checksums)
    return contents


@pytest.fixture
def no_network(monkeypatch):
    """A machine from which nothing can be reached."""

    def refuse(*args, **kwargs):
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(_sources, "RETRIES", 0)
    monkeypatch.delenv("FLATLAB_MIRROR", raising=False)


def write(contents, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("place", [".", "fashion-mnist", "FashionMNIST/raw"])
def test_the_files_are_found_where_they_may_lie_and_are_read(place, files, no_network, tmp_path):
    write(files, tmp_path / place)
    raw = load("fashion-mnist", str(tmp_path))
    assert dict(raw.sizes) == {"train_sample": 5, "axis1": 28, "axis2": 28, "test_sample": 3}
    for part, count in (("train", 5), ("test", 3)):
        images = (np.arange(count * 784) % 251).reshape(count, 28, 28)
        assert np.array_equal(raw[f"{part}_inputs"].values, images)
        assert raw[f"{part}_labels"].values.tolist() == list(range(4, 4 + count))
    assert raw.attrs["maximum"] == 255
    assert len(raw.attrs["classes"]) == 10


def test_the_folder_may_be_named_by_the_environment(files, no_network, tmp_path, monkeypatch):
    write(files, tmp_path)
    monkeypatch.setenv("FLATLAB_DATA", str(tmp_path))
    assert load("fashion-mnist").sizes["train_sample"] == 5


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_is_named(name, files, no_network, tmp_path):
    write({**files, name: files[name][:-1] + b"?"}, tmp_path)
    with pytest.raises(DataError) as error:
        load("fashion-mnist", str(tmp_path))
    assert f"{tmp_path / name} is damaged" in sentence(error)


def test_a_truncated_file_is_named(files, no_network, tmp_path):
    write({**files, NAMES[0]: files[NAMES[0]][:40]}, tmp_path)
    with pytest.raises(DataError) as error:
        load("fashion-mnist", str(tmp_path))
    assert f"{tmp_path / NAMES[0]} is damaged or incomplete" in sentence(error)


def test_files_that_are_neither_there_nor_downloadable_are_named(no_network, tmp_path):
    from torchvision.datasets import FashionMNIST

    with pytest.raises(DataError) as error:
        load("fashion-mnist", str(tmp_path))
    message = sentence(error)
    assert str(tmp_path) in message
    assert "Network is unreachable" in message
    assert all(name in message for name in NAMES)
    assert all(mirror in message for mirror in FashionMNIST.mirrors)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_one_missing_file_is_named_alone(files, no_network, tmp_path):
    write(files, tmp_path)
    (tmp_path / NAMES[2]).unlink()
    with pytest.raises(DataError, match=rf"missing: {NAMES[2]}\).*could not be downloaded"):
        load("fashion-mnist", str(tmp_path))


@pytest.mark.parametrize("there", [[], NAMES[1:3], NAMES])
def test_what_is_missing_is_read_from_a_mirror_on_this_machine(
    there, files, no_network, tmp_path, monkeypatch
):
    write(files, tmp_path / "mirror")
    monkeypatch.setenv("FLATLAB_MIRROR", (tmp_path / "mirror").as_uri())
    write({name: files[name] for name in there}, tmp_path / "data" / "fashion-mnist")
    raw = load("fashion-mnist", str(tmp_path / "data"))
    assert (raw.sizes["train_sample"], raw.sizes["test_sample"]) == (5, 3)
    assert {path.name for path in tmp_path.glob("data/*/*")} == set(there)


def test_the_official_files_hold_60000_and_10000_images():
    folder = os.environ.get("FLATLAB_DATA")
    if not folder:
        pytest.skip("FLATLAB_DATA does not name a folder of data sets")
    places = [Path(folder), Path(folder, "fashion-mnist"), Path(folder, "FashionMNIST", "raw")]
    if not any(all((place / name).is_file() for name in NAMES) for place in places):
        pytest.skip("the folder FLATLAB_DATA does not have the files of Fashion-MNIST")
    raw = load("fashion-mnist")
    for part, count in (("train", 60_000), ("test", 10_000)):
        assert raw[f"{part}_inputs"].shape == (count, 28, 28)
        assert (int(raw[f"{part}_inputs"].min()), int(raw[f"{part}_inputs"].max())) == (0, 255)
        per_class = np.bincount(raw[f"{part}_labels"].values, minlength=10)
        assert per_class.tolist() == [count // 10] * 10
