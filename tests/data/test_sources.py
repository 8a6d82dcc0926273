"""Official files: whole or damaged, there or not; downloads, and what any failure leaves."""

import copy
import hashlib
import http.server
import itertools
import os
import shutil
import socket
import sys
import tarfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from flatlab.data import DataError, _sources, load
from tests.data.official import cifar, fashion_mnist
from tests.refusals import refusal

CONTENT = np.random.default_rng(0).bytes(100_000)
NAME = "data.bin"


class Mirror(http.server.ThreadingHTTPServer):
    """A server of one file that can be told to fail.

    content: what it has under the name, or None.  statuses: what the next answers are instead.
    breaks: after how many bytes the next answers end.  hold: whether they then stay silent.
    asked: the number of requests.
    """

    def __init__(self, content=CONTENT):
        super().__init__(("127.0.0.1", 0), Answer)
        self.content, self.statuses, self.breaks, self.asked = content, [], [], 0
        self.hold = None
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Answer(http.server.BaseHTTPRequestHandler):
    """One answer of a `Mirror`."""

    def log_message(self, *args):
        pass

    def do_GET(self):
        mirror = self.server
        mirror.asked += 1
        status = mirror.statuses.pop(0) if mirror.statuses else 200
        if mirror.content is None or self.path != f"/{NAME}":
            status = 404
        if status != 200:
            self.send_error(status)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(mirror.content)))
        self.end_headers()
        count = mirror.breaks.pop(0) if mirror.breaks else len(mirror.content)
        self.wfile.write(mirror.content[:count])
        self.wfile.flush()
        if mirror.hold and count < len(mirror.content):
            mirror.hold.wait(20)


@pytest.fixture
def mirrors(monkeypatch):
    """Two servers, and no pause between tries."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.delenv("FLATLAB_MIRROR", raising=False)
    servers = Mirror(), Mirror()
    yield servers
    for server in servers:
        if server.hold:
            server.hold.set()
        server.shutdown()
        server.server_close()


def published(*servers, content=CONTENT):
    """The file as published by servers."""
    md5 = hashlib.md5(content).hexdigest()
    return _sources.Published(NAME, md5, tuple(server.url for server in servers))


def fetch(folder, *servers):
    """What lies in a folder after the file has been got from servers."""
    _sources.obtain("the data", [published(*servers)], [folder])
    return listing(folder)


def listing(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


WHOLE = {NAME: CONTENT}


ALTERED = CONTENT[:-1] + b"?"
FAILURES = {  # what the first source does, and how often both are asked
    "none": ({}, [1, 0]),
    "once": ({"statuses": [503]}, [2, 0]),
    "three times": ({"statuses": [503, 500, 429, 200]}, [3, 1]),
    "no file": ({"content": None}, [3, 1]),
    "another file": ({"content": ALTERED}, [3, 1]),
    "a broken connection": ({"breaks": [30_000]}, [2, 0]),
    "a silent connection": ({"breaks": [30_000], "hold": threading.Event()}, [2, 0]),
}


@pytest.mark.parametrize(("first", "asked"), FAILURES.values(), ids=FAILURES)
def test_a_source_is_tried_three_times_then_the_next_and_nothing_else_is_left(
    first, asked, mirrors, tmp_path, monkeypatch
):
    monkeypatch.setattr(_sources, "TIMEOUT_S", 0.3)
    for name, value in first.items():
        setattr(mirrors[0], name, copy.copy(value) if isinstance(value, list) else value)
    folder = tmp_path / "new" / "folder"
    assert fetch(folder, *mirrors) == WHOLE
    assert [server.asked for server in mirrors] == asked
    assert (folder / NAME).stat().st_mode & 0o777 == 0o644  # others may read it


def test_mirrors_of_the_environment_come_first(mirrors, tmp_path, monkeypatch):
    monkeypatch.setenv("FLATLAB_MIRROR", f"{mirrors[1].url}/")
    assert fetch(tmp_path, mirrors[0]) == WHOLE
    assert [server.asked for server in mirrors] == [0, 1]


def test_a_wrong_checksum_everywhere_leaves_nothing(mirrors, tmp_path):
    mirrors[0].content = ALTERED
    message = refusal(DataError, fetch, tmp_path, mirrors[0])
    assert f"{mirrors[0].url}/{NAME} (wrong checksum)" in message
    assert listing(tmp_path) == {}


def test_without_a_network_every_source_is_named_with_its_reason(mirrors, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("FLATLAB_MIRROR", "nonsense http://127.0.0.1:9/mirror")
    message = refusal(DataError, fetch, tmp_path, *mirrors)
    assert str(tmp_path) in message
    assert f"nonsense/{NAME} (Invalid URL 'nonsense/{NAME}'" in message
    for url in ("http://127.0.0.1:9/mirror", mirrors[0].url, mirrors[1].url):
        assert f"{url}/{NAME} (Network is unreachable)" in message
    assert "data_folder" in message
    assert "FLATLAB_MIRROR" in message
    assert listing(tmp_path) == {}


def test_a_file_without_any_source_is_named(tmp_path):
    with pytest.raises(DataError, match=rf"missing: {NAME}.*no source is known"):
        fetch(tmp_path)


def test_a_folder_that_cannot_be_written_is_named_and_no_source(mirrors, tmp_path):
    (tmp_path / "data").write_text("a file")
    message = refusal(DataError, fetch, tmp_path / "data", mirrors[0])
    assert f"{tmp_path / 'data' / NAME} cannot be written" in message
    assert "data_folder" in message


def test_a_full_disk_is_named_and_is_not_blamed_on_the_source(mirrors, tmp_path, monkeypatch):
    def full(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "move", full)
    message = refusal(DataError, fetch, tmp_path, *mirrors)
    assert "cannot be written (No space left on device); free some space" in message
    assert not (tmp_path / NAME).exists()
    assert mirrors[1].asked == 0


def test_files_are_read_where_they_are_and_missing_ones_go_last(mirrors, tmp_path):
    places = [tmp_path / name for name in ("first", "second", "last")]
    for place in places[1:]:
        place.mkdir()
        (place / "other.bin").write_bytes(b"other")
    other = _sources.Published("other.bin", hashlib.md5(b"other").hexdigest(), ())
    paths = _sources.obtain("the data", [other, published(mirrors[0])], places)
    assert paths == [places[1] / "other.bin", places[2] / NAME]


@pytest.mark.parametrize("content", [CONTENT[:-1], ALTERED, b""])
def test_a_damaged_file_is_named_and_neither_used_nor_replaced(content, mirrors, tmp_path):
    (tmp_path / NAME).write_bytes(content)
    message = refusal(DataError, fetch, tmp_path, mirrors[0])
    assert f"{tmp_path / NAME} is damaged or incomplete (wrong checksum)" in message
    assert listing(tmp_path) == {NAME: content}


def test_a_bar_is_shown_on_a_terminal_and_not_in_a_log(mirrors, tmp_path, monkeypatch, capsys):
    fetch(tmp_path / "log", mirrors[0])
    assert "%" not in "".join(capsys.readouterr())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    fetch(tmp_path / "terminal", mirrors[0])
    assert "100%" in capsys.readouterr().err


ALL = (fashion_mnist(), cifar(10), cifar(100))
PACKED = ALL[1:]
BY_KEY = [pytest.param(each, id=each.key) for each in ALL]
PACKED_BY_KEY = [pytest.param(each, id=each.key) for each in PACKED]
PLACES = [(each, place) for each in ALL for place in each.places]


@pytest.fixture
def no_network(monkeypatch):
    """A machine from which nothing can be reached."""

    def refuse(*args, **kwargs):
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(_sources, "RETRIES", 0)
    monkeypatch.delenv("FLATLAB_MIRROR", raising=False)


@pytest.fixture
def sums(no_network, monkeypatch):
    """Checksums of the made-up files pass for the official ones."""
    for official in ALL:
        official.sums(official.torchvision, monkeypatch)


def write(contents, folder):
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def files_in(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def why_not(official, folder):
    """Why a data set cannot be read."""
    return refusal(DataError, load, official.key, str(folder))


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
def test_a_damaged_file_is_named_and_not_opened(kind, official, name, tmp_path, monkeypatch):
    monkeypatch.setattr(tarfile, "open", None)
    contents = getattr(official, kind)
    for number, change in enumerate((lambda c: c[:-1] + b"?", lambda c: c[: len(c) // 2])):
        folder = tmp_path / str(number)
        write({**contents, name: change(contents[name])}, folder)
        expected = f"{folder / name} is damaged or incomplete (wrong checksum)"
        assert expected in why_not(official, folder)


@pytest.mark.usefixtures("sums")
@pytest.mark.parametrize("official", BY_KEY)
def test_one_missing_file_is_named_and_a_folder_without_it_is_as_good_as_none(official, tmp_path):
    contents = dict(official.unpacked or official.files)
    name = sorted(contents)[0]
    del contents[name]
    write(contents, tmp_path)
    message = why_not(official, tmp_path)
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


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("official", BY_KEY)
def test_the_real_files_hold_so_many_images_of_each_class(official):
    if not (folder := os.environ.get("FLATLAB_DATA")):
        pytest.skip("FLATLAB_DATA does not name a folder of data sets")
    inside = [names for names in (official.files, official.unpacked) if names]
    places = itertools.product([Path(folder, place) for place in official.places], inside)
    if not any(all((place / name).is_file() for name in names) for place, names in places):
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
