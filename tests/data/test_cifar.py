"""CIFAR-10 and CIFAR-100: the official archives, whole or damaged, packed or not, there or not."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import socket
import struct
import tarfile
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import pytest

from flatlab.data import DataError, _sources, load

COUNT = 4
"""Images of each made-up batch."""

TEN = [
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
]


class Published(NamedTuple):
    """A data set as published: its files in the order of the archive, and where classes stand."""

    key: str
    title: str
    folder: str
    archive: str
    train: list[str]
    test: str
    meta: str
    files: list[str]
    labels: str
    names: str
    classes: list[str]

    @property
    def torchvision(self):
        import torchvision

        return getattr(torchvision.datasets, self.key.upper())


FIVE = [f"data_batch_{number}" for number in range(1, 6)]
ALL = [
    Published(
        *("cifar10", "CIFAR-10", "cifar-10-batches-py", "cifar-10-python.tar.gz"),
        *(FIVE, "test_batch", "batches.meta"),
        # Not in the order in which they are used, as in the official archive.
        [FIVE[3], "batches.meta", "test_batch", FIVE[2], FIVE[0], FIVE[4], FIVE[1]],
        *("labels", "label_names", TEN),
    ),
    Published(
        *("cifar100", "CIFAR-100", "cifar-100-python", "cifar-100-python.tar.gz"),
        *(["train"], "test", "meta", ["meta", "test", "train"]),
        *("fine_labels", "fine_label_names", [f"class {number}" for number in range(100)]),
    ),
]


@pytest.fixture(params=ALL, ids=[each.key for each in ALL])
def cifar(request):
    return request.param


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


def batch(cifar, name):
    """Images and labels of one made-up batch; those of CIFAR-100 have coarse labels as well."""
    generator = np.random.default_rng(list(name.encode()))
    labels = generator.integers(0, len(cifar.classes), COUNT)
    coarse = {"coarse_labels": (labels // 5).tolist()} if cifar.key == "cifar100" else {}
    return {
        "batch_label": name,
        cifar.labels: labels.tolist(),
        **coarse,
        "data": generator.integers(0, 256, (COUNT, 3072)).astype(np.uint8),
        "filenames": [f"{place}.png" for place in range(COUNT)],
    }


def sentence(error):
    """The message of an error, which must be one sentence."""
    message = str(error.value)
    assert "\n" not in message
    return message


def packed(folder, batches):
    """An archive as published."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        top = tarfile.TarInfo(folder)
        top.type = tarfile.DIRTYPE
        archive.addfile(top)
        for name, content in {**batches, "readme.html": b"read me"}.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def batches(cifar):
    """The files in the archive, made up."""
    about = {"num_cases_per_batch": COUNT, cifar.names: cifar.classes, "num_vis": 3072}
    if cifar.key == "cifar100":
        about["coarse_label_names"] = [f"coarse {number}" for number in range(20)]
    return {
        name: python2(about if name == cifar.meta else batch(cifar, name)) for name in cifar.files
    }


@pytest.fixture
def archive(cifar, batches, monkeypatch):
    """The archive; the checksums of the made-up files pass for the official ones."""
    kind, content = cifar.torchvision, packed(cifar.folder, batches)
    sums = {name: hashlib.md5(content).hexdigest() for name, content in batches.items()}
    monkeypatch.setattr(kind, "tgz_md5", hashlib.md5(content).hexdigest())
    monkeypatch.setattr(kind, "train_list", [[name, sums[name]] for name in cifar.train])
    monkeypatch.setattr(kind, "test_list", [[cifar.test, sums[cifar.test]]])
    monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": sums[cifar.meta]})
    return content


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


def check_content(raw, cifar):
    """All batches in their order, with their labels."""
    for part, names in (("train", cifar.train), ("test", [cifar.test])):
        made = [batch(cifar, name) for name in names]
        images = np.concatenate([b["data"] for b in made]).reshape(-1, 3, 32, 32)
        assert raw[f"{part}_inputs"].dtype == np.uint8
        assert np.array_equal(raw[f"{part}_inputs"].values, images)
        assert raw[f"{part}_labels"].values.tolist() == [
            label for b in made for label in b[cifar.labels]
        ]
    assert raw.attrs["classes"] == cifar.classes
    assert raw.attrs["maximum"] == 255
    assert raw.attrs["title"] == cifar.title
    assert "Krizhevsky (2009)" in raw.attrs["source"]
    assert "none stated" in raw.attrs["licence"]


@pytest.mark.parametrize("place", [".", "{key}"])
def test_the_archive_is_read_where_it_may_lie_and_nothing_is_left_there(
    place, cifar, archive, tmp_path
):
    there = tmp_path / place.format(key=cifar.key)
    write({cifar.archive: archive}, there)
    check_content(load(cifar.key, str(tmp_path)), cifar)
    assert files_in(tmp_path) == [there / cifar.archive]


@pytest.mark.parametrize("place", [".", "{key}"])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside an archive"])
def test_the_unpacked_folder_is_read(place, beside, cifar, archive, batches, tmp_path):
    write(batches, tmp_path / place.format(key=cifar.key) / cifar.folder)
    if beside:
        write({cifar.archive: archive}, tmp_path)
    check_content(load(cifar.key, str(tmp_path)), cifar)


@pytest.mark.usefixtures("archive")
def test_the_folder_of_the_batches_may_be_named_itself(cifar, batches, tmp_path):
    write(batches, tmp_path / cifar.folder)
    check_content(load(cifar.key, str(tmp_path / cifar.folder)), cifar)


@pytest.mark.usefixtures("archive")
def test_the_values_are_those_of_torchvision_with_channels_first(cifar, batches, tmp_path):
    write(batches, tmp_path / cifar.folder)
    raw = load(cifar.key, str(tmp_path))
    theirs = cifar.torchvision(tmp_path, train=True)
    assert np.array_equal(raw["train_inputs"].values.transpose(0, 2, 3, 1), theirs.data)
    assert raw["train_labels"].values.tolist() == theirs.targets


@pytest.mark.parametrize("change", ["truncated", "altered"])
def test_a_damaged_archive_is_named_and_not_opened(change, cifar, archive, tmp_path, monkeypatch):
    content = archive[:3000] + (b"?" + archive[3001:] if change == "altered" else b"")
    write({cifar.archive: content}, tmp_path)
    monkeypatch.setattr(tarfile, "open", None)
    with pytest.raises(DataError) as error:
        load(cifar.key, str(tmp_path))
    assert f"{tmp_path / cifar.archive} is damaged or incomplete (wrong checksum)" in sentence(
        error
    )


@pytest.mark.usefixtures("archive")
@pytest.mark.parametrize("part", ["train", "test", "meta"])
def test_a_damaged_batch_is_named_and_not_read(part, cifar, batches, tmp_path):
    name = cifar.train[-1] if part == "train" else getattr(cifar, part)
    write({**batches, name: batches[name][:-1] + b"?"}, tmp_path / cifar.folder)
    with pytest.raises(DataError) as error:
        load(cifar.key, str(tmp_path))
    assert f"{tmp_path / cifar.folder / name} is damaged or incomplete" in sentence(error)


@pytest.mark.usefixtures("archive")
def test_a_folder_without_one_batch_is_as_good_as_none(cifar, batches, tmp_path):
    present = {name: content for name, content in batches.items() if name != cifar.train[-1]}
    write(present, tmp_path / cifar.folder)
    with pytest.raises(DataError, match="could not be downloaded"):
        load(cifar.key, str(tmp_path))


def test_what_is_missing_is_read_from_a_local_mirror(cifar, archive, tmp_path, monkeypatch):
    write({cifar.archive: archive}, tmp_path / "mirror")
    monkeypatch.setenv("FLATLAB_MIRROR", (tmp_path / "mirror").as_uri())
    check_content(load(cifar.key, str(tmp_path / "data")), cifar)
    assert files_in(tmp_path) == [tmp_path / "mirror" / cifar.archive]


def test_without_a_network_every_source_is_named(cifar, tmp_path, monkeypatch):
    mirror = "http://127.0.0.1:9/mirror"
    monkeypatch.setenv("FLATLAB_MIRROR", f"{mirror} {(tmp_path / 'other').as_uri()}")
    with pytest.raises(DataError) as error:
        load(cifar.key, str(tmp_path))
    message = sentence(error)
    assert str(tmp_path) in message
    assert f"{tmp_path}/other (missing: {cifar.archive})" in message
    assert f"{mirror}/{cifar.archive} (" in message
    assert f"{cifar.torchvision.url} (Network is unreachable)" in message
    assert files_in(tmp_path) == []


def test_the_official_files_hold_50000_and_10000_images(cifar):
    folder = os.environ.get("FLATLAB_DATA")
    if not folder:
        pytest.skip("FLATLAB_DATA does not name a folder of data sets")
    inside = [cifar.archive, f"{cifar.folder}/{cifar.meta}"]
    places = [Path(folder, each, name) for each in (".", cifar.key) for name in inside]
    if not any(place.is_file() for place in places):
        pytest.skip(f"the folder FLATLAB_DATA does not have the files of {cifar.title}")
    raw, classes = load(cifar.key), len(cifar.classes)
    for part, count in (("train", 50_000), ("test", 10_000)):
        assert raw[f"{part}_inputs"].shape == (count, 3, 32, 32)
        assert np.bincount(raw[f"{part}_labels"].values).tolist() == [count // classes] * classes
    if cifar.key == "cifar10":
        assert raw.attrs["classes"] == cifar.classes
        means = raw["train_inputs"].values.mean((0, 2, 3)) / 255
        assert means == pytest.approx([0.491, 0.482, 0.447], abs=5e-4)
