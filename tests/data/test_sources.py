"""Downloads: which sources are asked, and what lies in the folder after any failure."""

import hashlib
import http.server
import io
import shutil
import socket
import sys
import threading
import time

import numpy as np
import pytest

from flatlab.data import DataError, _sources
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


class Terminal(io.StringIO):
    """A terminal that keeps what it is shown."""

    def isatty(self):
        return True


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


def test_a_file_that_is_there_is_not_asked_for(mirrors, tmp_path):
    (tmp_path / NAME).write_bytes(CONTENT)
    assert fetch(tmp_path, *mirrors) == WHOLE
    assert mirrors[0].asked == 0


def test_a_missing_file_is_got_from_the_first_source_and_nothing_else_is_left(mirrors, tmp_path):
    folder = tmp_path / "new" / "folder"
    assert fetch(folder, *mirrors) == WHOLE
    assert [server.asked for server in mirrors] == [1, 0]
    assert (folder / NAME).stat().st_mode & 0o777 == 0o644  # others may read it


def test_mirrors_of_the_environment_come_before_the_published_addresses(
    mirrors, tmp_path, monkeypatch
):
    monkeypatch.setenv("FLATLAB_MIRROR", f"{mirrors[1].url}/")
    assert fetch(tmp_path, mirrors[0]) == WHOLE
    assert [server.asked for server in mirrors] == [0, 1]


def test_a_source_is_tried_three_times_then_the_next(mirrors, tmp_path):
    mirrors[0].statuses = [503, 500, 429, 200]
    assert fetch(tmp_path, *mirrors) == WHOLE
    assert [server.asked for server in mirrors] == [3, 1]
    mirrors[1].statuses = [503]
    (tmp_path / NAME).unlink()
    assert fetch(tmp_path, mirrors[1]) == WHOLE


@pytest.mark.parametrize("content", [None, CONTENT[:-1] + b"?"], ids=["none", "altered"])
def test_a_source_without_the_right_file_leads_to_the_next(content, mirrors, tmp_path):
    mirrors[0].content = content
    assert fetch(tmp_path, *mirrors) == WHOLE
    assert mirrors[1].asked == 1


def test_a_broken_or_silent_connection_is_tried_again(mirrors, tmp_path, monkeypatch):
    monkeypatch.setattr(_sources, "TIMEOUT_S", 0.3)
    mirrors[0].breaks = [30_000]
    assert fetch(tmp_path / "broken", mirrors[0]) == WHOLE
    mirrors[0].breaks, mirrors[0].hold = [30_000], threading.Event()
    assert fetch(tmp_path / "silent", mirrors[0]) == WHOLE
    assert mirrors[0].asked == 4


def test_a_wrong_checksum_everywhere_leaves_nothing(mirrors, tmp_path):
    mirrors[0].content = CONTENT[:-1] + b"?"
    assert f"{mirrors[0].url}/{NAME} (wrong checksum)" in refusal(
        DataError, fetch, tmp_path, mirrors[0]
    )
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


def test_a_folder_that_cannot_be_written_is_named_and_is_not_blamed_on_the_source(
    mirrors, tmp_path
):
    (tmp_path / "data").write_text("a file")
    message = refusal(DataError, fetch, tmp_path / "data", mirrors[0])
    assert f"{tmp_path / 'data' / NAME} cannot be written" in message
    assert "data_folder" in message


def test_a_full_disk_is_named_and_is_not_blamed_on_the_source(mirrors, tmp_path, monkeypatch):
    def full(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "move", full)
    assert "cannot be written (No space left on device); free some space" in refusal(
        DataError, fetch, tmp_path, *mirrors
    )
    assert not (tmp_path / NAME).exists()
    assert mirrors[1].asked == 0


def test_the_first_place_that_has_a_file_is_used_and_what_is_missing_goes_into_the_last(
    mirrors, tmp_path
):
    places = [tmp_path / name for name in ("first", "second", "last")]
    for place in places[1:]:
        place.mkdir()
        (place / "other.bin").write_bytes(b"other")
    other = _sources.Published("other.bin", hashlib.md5(b"other").hexdigest(), ())
    paths = _sources.obtain("the data", [other, published(mirrors[0])], places)
    assert paths == [places[1] / "other.bin", places[2] / NAME]


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT[:-1] + b"?", b""])
def test_a_damaged_file_is_named_and_neither_used_nor_replaced(content, mirrors, tmp_path):
    (tmp_path / NAME).write_bytes(content)
    assert f"{tmp_path / NAME} is damaged or incomplete (wrong checksum)" in refusal(
        DataError, fetch, tmp_path, mirrors[0]
    )
    assert listing(tmp_path) == {NAME: content}


def test_a_bar_is_shown_on_a_terminal_and_not_in_a_log(mirrors, tmp_path, monkeypatch, capsys):
    fetch(tmp_path / "log", mirrors[0])
    assert "%" not in "".join(capsys.readouterr())
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    fetch(tmp_path / "terminal", mirrors[0])
    assert "100%" in terminal.getvalue()
