"""CIFAR-10: the official archive, whole or damaged, packed or unpacked, there or not."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import socket
import struct
import tarfile
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from flatlab.data import DataError, _sources, load

ARCHIVE = "cifar-10-python.tar.gz"
FOLDER = "cifar-10-batches-py"
TRAIN = [f"data_batch_{number}" for number in range(1, 6)]
META = "batches.meta"
CLASSES = [
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
]
COUNT = 4
"""Images of each made-up batch."""


class Python2Pickler(pickle._Pickler):
    """Writes text, bytes and arrays as numpy did in Python 2, which wrote the official files."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_text(self, text):
        content = text if isinstance(text, bytes) else text.encode("latin1")
        self.write(pickle.BINSTRING + struct.pack("<i", len(content)) + content)
        self.memoize(text)

    dispatch[bytes] = dispatch[str] = save_text

    def save_global(self, obj, name=None):
        module = obj.__module__.replace("numpy._core", "numpy.core")
        self.write(pickle.GLOBAL + f"{module}\n{obj.__name__}\n".encode())
        self.memoize(obj)

    dispatch[type] = save_global
    dispatch[type(np.empty(0).__reduce__()[0])] = save_global


def python2(content):
    """What Python 2 would have written for some content."""
    buffer = io.BytesIO()
    Python2Pickler(buffer, protocol=2).dump(content)
    return buffer.getvalue()


def batch(number):
    """Images and labels of one made-up batch."""
    generator = np.random.default_rng(number)
    return {
        "batch_label": f"batch {number}",
        "labels": generator.integers(0, 10, COUNT).tolist(),
        "data": generator.integers(0, 256, (COUNT, 3072)).astype(np.uint8),
        "filenames": [f"{place}.png" for place in range(COUNT)],
    }


def sentence(error):
    """The message of an error, which must be one sentence."""
    message = str(error.value)
    assert "\n" not in message
    return message


def packed(batches):
    """An archive as published."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        top = tarfile.TarInfo(FOLDER)
        top.type = tarfile.DIRTYPE
        archive.addfile(top)
        for name, content in {**batches, "readme.html": b"read me"}.items():
            member = tarfile.TarInfo(f"{FOLDER}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def publish(batches, monkeypatch):
    """Let the checksums of made-up batches pass for the official ones; returns the archive."""
    from torchvision.datasets import CIFAR10

    archive = packed(batches)
    sums = {name: hashlib.md5(content).hexdigest() for name, content in batches.items()}
    monkeypatch.setattr(CIFAR10, "tgz_md5", hashlib.md5(archive).hexdigest())
    monkeypatch.setattr(CIFAR10, "train_list", [[name, sums[name]] for name in TRAIN])
    monkeypatch.setattr(CIFAR10, "test_list", [["test_batch", sums["test_batch"]]])
    monkeypatch.setattr(CIFAR10, "meta", {**CIFAR10.meta, "md5": sums[META]})
    return archive


@pytest.fixture
def batches():
    """The files in the archive, made up."""
    # Not in the order in which they are used, as in the official archive.
    numbers = {"data_batch_4": 4, META: None, "test_batch": 6}
    numbers |= {"data_batch_3": 3, "data_batch_1": 1, "data_batch_5": 5, "data_batch_2": 2}
    about = {"num_cases_per_batch": COUNT, "label_names": CLASSES, "num_vis": 3072}
    return {name: python2(batch(number) if number else about) for name, number in numbers.items()}


@pytest.fixture(autouse=True)
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


def files_in(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def check_content(raw):
    """All batches in their order, with their labels."""
    expected = {"train": range(1, 6), "test": [6]}
    for part, numbers in expected.items():
        made = [batch(number) for number in numbers]
        images = np.concatenate([b["data"] for b in made]).reshape(-1, 3, 32, 32)
        assert raw[f"{part}_inputs"].dtype == np.uint8
        assert np.array_equal(raw[f"{part}_inputs"].values, images)
        assert raw[f"{part}_labels"].values.tolist() == [
            label for b in made for label in b["labels"]
        ]
    assert raw.attrs["classes"] == CLASSES
    assert raw.attrs["maximum"] == 255
    assert raw.attrs["title"] == "CIFAR-10"
    assert "Krizhevsky (2009)" in raw.attrs["source"]
    assert "none stated" in raw.attrs["licence"]


@pytest.mark.parametrize("place", [".", "cifar10"])
def test_the_archive_is_read_where_it_may_lie_and_nothing_is_left_there(
    place, batches, tmp_path, monkeypatch
):
    write({ARCHIVE: publish(batches, monkeypatch)}, tmp_path / place)
    check_content(load("cifar10", str(tmp_path)))
    assert files_in(tmp_path) == [tmp_path / place / ARCHIVE]


@pytest.mark.parametrize("place", [FOLDER, f"cifar10/{FOLDER}"])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside an archive"])
def test_the_unpacked_folder_is_read(place, beside, batches, tmp_path, monkeypatch):
    archive = publish(batches, monkeypatch)
    write(batches, tmp_path / place)
    if beside:
        write({ARCHIVE: archive}, tmp_path)
    check_content(load("cifar10", str(tmp_path)))


def test_the_folder_of_the_batches_may_be_named_itself(batches, tmp_path, monkeypatch):
    publish(batches, monkeypatch)
    write(batches, tmp_path / FOLDER)
    check_content(load("cifar10", str(tmp_path / FOLDER)))


def test_the_values_are_those_of_torchvision_with_channels_first(batches, tmp_path, monkeypatch):
    from torchvision.datasets import CIFAR10

    publish(batches, monkeypatch)
    write(batches, tmp_path / FOLDER)
    raw = load("cifar10", str(tmp_path))
    theirs = CIFAR10(tmp_path, train=True)
    assert np.array_equal(raw["train_inputs"].values.transpose(0, 2, 3, 1), theirs.data)
    assert raw["train_labels"].values.tolist() == theirs.targets


@pytest.mark.parametrize("change", ["truncated", "altered"])
def test_a_damaged_archive_is_named_and_not_opened(change, batches, tmp_path, monkeypatch):
    archive = publish(batches, monkeypatch)
    content = archive[:3000] + (b"?" + archive[3001:] if change == "altered" else b"")
    write({ARCHIVE: content}, tmp_path)
    monkeypatch.setattr(tarfile, "open", None)
    with pytest.raises(DataError) as error:
        load("cifar10", str(tmp_path))
    assert f"{tmp_path / ARCHIVE} is damaged or incomplete (wrong checksum)" in sentence(error)


@pytest.mark.parametrize("name", ["data_batch_3", "test_batch", META])
def test_a_damaged_batch_is_named_and_not_read(name, batches, tmp_path, monkeypatch):
    publish(batches, monkeypatch)
    write({**batches, name: batches[name][:-1] + b"?"}, tmp_path / FOLDER)
    with pytest.raises(DataError) as error:
        load("cifar10", str(tmp_path))
    assert f"{tmp_path / FOLDER / name} is damaged or incomplete" in sentence(error)


def test_a_folder_without_one_batch_is_as_good_as_none(batches, tmp_path, monkeypatch):
    publish(batches, monkeypatch)
    write({name: c for name, c in batches.items() if name != "data_batch_2"}, tmp_path / FOLDER)
    with pytest.raises(DataError, match="could not be downloaded"):
        load("cifar10", str(tmp_path))


def test_what_is_missing_is_read_from_a_local_mirror(batches, tmp_path, monkeypatch):
    write({ARCHIVE: publish(batches, monkeypatch)}, tmp_path / "mirror")
    monkeypatch.setenv("FLATLAB_MIRROR", (tmp_path / "mirror").as_uri())
    check_content(load("cifar10", str(tmp_path / "data")))
    assert files_in(tmp_path) == [tmp_path / "mirror" / ARCHIVE]


def test_without_a_network_every_source_is_named(tmp_path, monkeypatch):
    from torchvision.datasets import CIFAR10

    mirror = "http://127.0.0.1:9/mirror"
    monkeypatch.setenv("FLATLAB_MIRROR", f"{mirror} {(tmp_path / 'other').as_uri()}")
    with pytest.raises(DataError) as error:
        load("cifar10", str(tmp_path))
    message = sentence(error)
    assert str(tmp_path) in message
    assert f"{tmp_path}/other (missing: {ARCHIVE})" in message
    assert f"{mirror}/{ARCHIVE} (" in message
    assert f"{CIFAR10.url} (Network is unreachable)" in message
    assert files_in(tmp_path) == []


def test_the_official_files_hold_50000_and_10000_images():
    folder = os.environ.get("FLATLAB_DATA")
    if not folder:
        pytest.skip("FLATLAB_DATA does not name a folder of data sets")
    places = [Path(folder, ARCHIVE), Path(folder, "cifar10", ARCHIVE)]
    places += [Path(folder, FOLDER, META), Path(folder, "cifar10", FOLDER, META)]
    if not any(place.is_file() for place in places):
        pytest.skip("the folder FLATLAB_DATA does not have the files of CIFAR-10")
    raw = load("cifar10")
    for part, count in (("train", 50_000), ("test", 10_000)):
        assert raw[f"{part}_inputs"].shape == (count, 3, 32, 32)
        assert np.bincount(raw[f"{part}_labels"].values).tolist() == [count // 10] * 10
    assert raw.attrs["classes"] == CLASSES
    means = raw["train_inputs"].values.mean((0, 2, 3)) / 255
    assert means == pytest.approx([0.491, 0.482, 0.447], abs=5e-4)
