"""Official files of data sets: whole or damaged, packed or not, there or not."""

import os
import socket
import tarfile
from pathlib import Path

import numpy as np
import pytest

from flatlab.data import DataError, _sources, load
from tests.data.official import cifar, fashion_mnist
from tests.refusals import refusal as refused

ALL = (fashion_mnist(), cifar(10), cifar(100))
PACKED = ALL[1:]
BY_KEY = [pytest.param(each, id=each.key) for each in ALL]
PACKED_BY_KEY = [pytest.param(each, id=each.key) for each in PACKED]
PLACES = [(each, place) for each in ALL for place in each.places]


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """A machine from which nothing can be reached."""

    def refuse(*args, **kwargs):
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(_sources, "RETRIES", 0)
    monkeypatch.delenv("FLATLAB_MIRROR", raising=False)


@pytest.fixture
def sums(monkeypatch):
    """Checksums of the made-up files pass for the official ones."""
    for official in ALL:
        official.sums(official.torchvision, monkeypatch)


def write(contents, folder):
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def files_in(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def refusal(official, folder):
    """Why a data set cannot be read."""
    return refused(DataError, load, official.key, str(folder))


def check_content(raw, official):
    for split in ("train", "test"):
        assert raw[f"{split}_inputs"].dtype == np.uint8
        assert np.array_equal(raw[f"{split}_inputs"].values, official.inputs[split])
        assert raw[f"{split}_labels"].values.tolist() == official.labels[split]
    assert raw.attrs["classes"] == official.classes
    assert raw.attrs["maximum"] == 255
    assert raw.attrs["title"] == official.name
    assert raw.attrs["source"].endswith(("the official files", "the official files for Python"))
    assert raw.attrs["licence"] == "MIT" or "none stated" in raw.attrs["licence"]


@pytest.mark.usefixtures("sums")
@pytest.mark.parametrize(("official", "place"), PLACES, ids=lambda each: getattr(each, "key", each))
def test_files_are_read_where_they_may_lie_and_nothing_is_left_there(official, place, tmp_path):
    there = tmp_path / place
    write(official.files, there)
    check_content(load(official.key, str(tmp_path)), official)
    assert files_in(tmp_path) == sorted(there / name for name in official.files)


@pytest.mark.usefixtures("sums")
def test_the_folder_may_be_named_by_the_environment(tmp_path, monkeypatch):
    write(ALL[0].files, tmp_path)
    monkeypatch.setenv("FLATLAB_DATA", str(tmp_path))
    check_content(load(ALL[0].key), ALL[0])


@pytest.mark.usefixtures("sums")
@pytest.mark.parametrize("official", PACKED_BY_KEY)
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside an archive"])
def test_the_unpacked_folder_is_read_and_may_be_named_itself(beside, official, tmp_path):
    for place in official.places:
        write(official.unpacked, tmp_path / place / "data" / place)
        if beside:
            write(official.files, tmp_path / place / "data")
        check_content(load(official.key, str(tmp_path / place / "data")), official)
    (folder, *_) = {path.parent for path in files_in(tmp_path) if path.suffix != ".gz"}
    check_content(load(official.key, str(folder)), official)


@pytest.mark.usefixtures("sums")
@pytest.mark.parametrize("official", PACKED_BY_KEY)
def test_the_values_are_those_of_torchvision_with_channels_first(official, tmp_path):
    write(official.unpacked, tmp_path)
    raw = load(official.key, str(tmp_path))
    theirs = official.torchvision(tmp_path, train=True)
    assert np.array_equal(raw["train_inputs"].values.transpose(0, 2, 3, 1), theirs.data)
    assert raw["train_labels"].values.tolist() == theirs.targets


DAMAGED = [
    *(("files", official, name) for official in ALL for name in official.files),
    *(("unpacked", official, name) for official in PACKED for name in official.unpacked),
]


@pytest.mark.usefixtures("sums")
@pytest.mark.parametrize(("kind", "official", "name"), DAMAGED, ids=lambda e: getattr(e, "key", e))
def test_a_damaged_or_truncated_file_is_named_and_not_opened(
    kind, official, name, tmp_path, monkeypatch
):
    monkeypatch.setattr(tarfile, "open", None)
    contents = getattr(official, kind)
    for number, change in enumerate((lambda c: c[:-1] + b"?", lambda c: c[: len(c) // 2])):
        folder = tmp_path / str(number)
        write({**contents, name: change(contents[name])}, folder)
        expected = f"{folder / name} is damaged or incomplete (wrong checksum)"
        assert expected in refusal(official, folder)


@pytest.mark.usefixtures("sums")
@pytest.mark.parametrize("official", BY_KEY)
def test_one_missing_file_is_named_and_a_folder_without_it_is_as_good_as_none(official, tmp_path):
    contents = dict(official.unpacked or official.files)
    name = sorted(contents)[0]
    del contents[name]
    write(contents, tmp_path)
    message = refusal(official, tmp_path)
    missing = name if not official.unpacked else next(iter(official.files))
    assert f"(missing: {missing}) and could not be downloaded" in message


@pytest.mark.usefixtures("sums")
@pytest.mark.parametrize("official", BY_KEY)
def test_what_is_missing_is_read_from_a_local_mirror(official, tmp_path, monkeypatch):
    write(official.files, tmp_path / "mirror")
    monkeypatch.setenv("FLATLAB_MIRROR", (tmp_path / "mirror").as_uri())
    names = list(official.files)
    for number, there in enumerate(([], names[1:3], names)):
        folder = tmp_path / str(number)
        write({name: official.files[name] for name in there}, folder)
        check_content(load(official.key, str(folder)), official)
        assert {path.name for path in files_in(folder)} == {*there}


@pytest.mark.parametrize("official", BY_KEY)
def test_without_a_network_every_source_is_named(official, tmp_path, monkeypatch):
    mirror = "http://127.0.0.1:9/mirror"
    monkeypatch.setenv("FLATLAB_MIRROR", f"{mirror} {(tmp_path / 'other').as_uri()}")
    message = refusal(official, tmp_path)
    assert str(tmp_path) in message
    assert f"{tmp_path}/other (missing: {', '.join(official.files)})" in message
    name = next(iter(official.files))
    kind = official.torchvision
    published = getattr(kind, "mirrors", None) or [kind.url.removesuffix(name)]
    for source in (f"{mirror}/", *published):
        assert f"{source}{name} (" in message
    assert "Network is unreachable" in message
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("official", BY_KEY)
def test_the_real_files_hold_so_many_images_of_each_class(official):
    if not (folder := os.environ.get("FLATLAB_DATA")):
        pytest.skip("FLATLAB_DATA does not name a folder of data sets")
    places = [Path(folder, place) for place in official.places]
    inside = [official.files, official.unpacked]
    if not any(
        all((p / name).is_file() for name in names) for p in places for names in inside if names
    ):
        pytest.skip(f"the folder FLATLAB_DATA does not have the files of {official.name}")
    raw = load(official.key)
    classes = len(official.classes)
    for split, count in official.counts.items():
        values = raw[f"{split}_inputs"].values
        assert values.shape == (count, *official.shape)
        assert (int(values.min()), int(values.max())) == (0, 255)
        assert np.bincount(raw[f"{split}_labels"].values).tolist() == [count // classes] * classes
    if official.key == "cifar10":
        assert raw.attrs["classes"][:2] == ["airplane", "automobile"]
        means = raw["train_inputs"].values.mean((0, 2, 3)) / 255
        assert means == pytest.approx([0.491, 0.482, 0.447], abs=5e-4)
