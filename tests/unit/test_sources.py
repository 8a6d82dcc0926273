"""Downloads: what is asked of whom, what is kept, and what lies in the folder after any failure."""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from flatlab.data import DataError, _sources
from flatlab.jobs import Guard

CONTENT = np.random.default_rng(0).bytes(100_000)
NAME = "data.bin"


class Mirror(http.server.ThreadingHTTPServer):
    """A server of one file that can be told to fail.

    content: what it has under the name, or None.  statuses: what the next answers are instead.
    breaks: after how many bytes the next answers end.  ranges: whether it sends parts.
    asked: the first byte asked for by each request.  hold: not sent before it is set.
    offset: by how many bytes too early a part begins.
    """

    def __init__(self, content=CONTENT):
        super().__init__(("127.0.0.1", 0), Answer)
        self.content, self.statuses, self.breaks, self.ranges = content, [], [], True
        self.asked, self.hold, self.offset = [], None, 0
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
        wanted = self.headers.get("Range", "bytes=0-")
        start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
        mirror.asked.append(start)
        status = mirror.statuses.pop(0) if mirror.statuses else 200
        if mirror.content is None or self.path != f"/{NAME}":
            status = 404
        start = start if mirror.ranges else 0
        if status == 200 and start >= len(mirror.content):
            status = 416
        if status != 200:
            self.send_error(status)
            return
        content = mirror.content[start - mirror.offset if start else 0 :]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content)))
        if start:
            total = len(mirror.content)
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        self.end_headers()
        count = mirror.breaks.pop(0) if mirror.breaks else len(content)
        self.wfile.write(content[:count])
        self.wfile.flush()
        if mirror.hold:
            mirror.hold.wait(20)


@pytest.fixture
def mirrors(monkeypatch):
    """Two servers, and no pause between tries."""
    monkeypatch.setattr(_sources, "PAUSE_S", 0)
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


def sentence(error):
    """The message of an error, which must be one sentence."""
    message = str(error.value)
    assert "\n" not in message
    return message


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
    assert mirrors[0].asked == []


def test_a_missing_file_is_got_from_the_first_source_and_nothing_else_is_left(mirrors, tmp_path):
    assert fetch(tmp_path / "new" / "folder", *mirrors) == WHOLE
    assert [server.asked for server in mirrors] == [[0], []]


def test_mirrors_of_the_environment_come_before_the_published_addresses(
    mirrors, tmp_path, monkeypatch
):
    monkeypatch.setenv("FLATLAB_MIRROR", f"{mirrors[1].url}/")
    assert fetch(tmp_path, mirrors[0]) == WHOLE
    assert [server.asked for server in mirrors] == [[], [0]]


def test_a_mirror_may_be_a_folder(mirrors, tmp_path, monkeypatch):
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / NAME).write_bytes(CONTENT)
    monkeypatch.setenv("FLATLAB_MIRROR", mirror.as_uri())
    assert fetch(tmp_path / "data", mirrors[0]) == WHOLE
    assert mirrors[0].asked == []


def test_a_broken_connection_is_resumed_where_it_broke(mirrors, tmp_path):
    mirrors[0].breaks = [30_000, 20_000]
    assert fetch(tmp_path, mirrors[0]) == WHOLE
    assert mirrors[0].asked == [0, 30_000, 50_000]


def test_another_source_goes_on_where_the_first_one_broke(mirrors, tmp_path):
    mirrors[0].breaks = [10_000, 10_000, 10_000]
    assert fetch(tmp_path, *mirrors) == WHOLE
    assert [server.asked for server in mirrors] == [[0, 10_000, 20_000], [30_000]]


def test_a_later_attempt_goes_on_where_all_sources_broke(mirrors, tmp_path):
    mirrors[0].breaks = [10_000, 10_000, 10_000]
    with pytest.raises(DataError) as error:
        fetch(tmp_path, mirrors[0])
    assert "the connection broke after 30,000 of 100,000 bytes" in sentence(error)
    assert listing(tmp_path) == {f"{NAME}.part": CONTENT[:30_000]}
    assert fetch(tmp_path, mirrors[0]) == WHOLE
    assert mirrors[0].asked[-1] == 30_000


def test_a_server_that_cannot_resume_sends_all_again(mirrors, tmp_path):
    mirrors[0].ranges, mirrors[0].breaks = False, [30_000]
    assert fetch(tmp_path, mirrors[0]) == WHOLE


def test_a_server_that_resumes_in_the_wrong_place_is_asked_for_all_again(mirrors, tmp_path):
    mirrors[0].offset, mirrors[0].breaks = 5, [30_000]
    assert fetch(tmp_path, *mirrors) == WHOLE
    assert [server.asked for server in mirrors] == [[0, 30_000, 0], []]


def test_a_silent_server_is_asked_again(mirrors, tmp_path, monkeypatch):
    monkeypatch.setattr(_sources, "TIMEOUT_S", 0.3)
    mirrors[0].breaks, mirrors[0].hold = [30_000], threading.Event()
    assert fetch(tmp_path, mirrors[0]) == WHOLE
    assert mirrors[0].asked == [0, 30_000]


def test_a_source_is_tried_three_times_then_the_next(mirrors, tmp_path):
    mirrors[0].statuses = [503, 500, 429, 200]
    assert fetch(tmp_path, *mirrors) == WHOLE
    assert [server.asked for server in mirrors] == [[0, 0, 0], [0]]
    mirrors[1].statuses = [503]
    (tmp_path / NAME).unlink()
    assert fetch(tmp_path, mirrors[1]) == WHOLE


def test_pauses_between_tries_grow(mirrors, tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr(_sources, "PAUSE_S", 1.0)
    monkeypatch.setattr(time, "sleep", pauses.append)
    mirrors[0].statuses = [503, 503]
    assert fetch(tmp_path, mirrors[0]) == WHOLE
    assert pauses == [1, 2]


def test_a_source_that_does_not_have_the_file_is_asked_once(mirrors, tmp_path):
    mirrors[0].content = None
    assert fetch(tmp_path, *mirrors) == WHOLE
    assert [server.asked for server in mirrors] == [[0], [0]]


def test_a_wrong_checksum_leads_to_the_next_source(mirrors, tmp_path):
    mirrors[0].content = CONTENT[:-1] + b"?"
    assert fetch(tmp_path, *mirrors) == WHOLE
    assert [server.asked for server in mirrors] == [[0], [0]]


def test_a_wrong_checksum_everywhere_leaves_nothing(mirrors, tmp_path):
    mirrors[0].content = CONTENT[:-1] + b"?"
    with pytest.raises(DataError) as error:
        fetch(tmp_path, mirrors[0])
    assert f"{mirrors[0].url}/{NAME} (wrong checksum)" in sentence(error)
    assert listing(tmp_path) == {}


@pytest.mark.parametrize("length", [5, len(CONTENT), len(CONTENT) + 7])
def test_a_part_of_something_else_is_thrown_away(length, mirrors, tmp_path):
    (tmp_path / f"{NAME}.part").write_bytes(b"?" * length)
    assert fetch(tmp_path, mirrors[0]) == WHOLE
    assert mirrors[0].asked == [length, 0]


def test_a_part_that_is_complete_needs_no_source(mirrors, tmp_path):
    (tmp_path / f"{NAME}.part").write_bytes(CONTENT)
    assert fetch(tmp_path, mirrors[0]) == WHOLE
    assert mirrors[0].asked == []


def test_without_a_network_every_source_is_named_with_its_reason(mirrors, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("FLATLAB_MIRROR", "nonsense http://127.0.0.1:9/mirror")
    with pytest.raises(DataError) as error:
        fetch(tmp_path, *mirrors)
    message = sentence(error)
    assert str(tmp_path) in message
    assert f"nonsense/{NAME} (not an address)" in message
    for url in ("http://127.0.0.1:9/mirror", mirrors[0].url, mirrors[1].url):
        assert f"{url}/{NAME} (Network is unreachable)" in message
    assert "data_folder" in message
    assert "FLATLAB_MIRROR" in message
    assert listing(tmp_path) == {}


def test_a_file_without_any_source_is_named(tmp_path):
    with pytest.raises(DataError, match=rf"missing: {NAME}.*no source is known"):
        fetch(tmp_path)


def test_a_kill_leaves_nothing_under_the_final_name_and_the_next_process_goes_on(mirrors, tmp_path):
    mirrors[0].breaks, mirrors[0].hold = [60_000], threading.Event()
    file = published(mirrors[0])
    code = (
        "import sys; from pathlib import Path; from flatlab.data import _sources as s; "
        "s.download(s.Published(sys.argv[1], sys.argv[2], (sys.argv[3],)), Path(sys.argv[4]))"
    )
    arguments = [NAME, file.md5, mirrors[0].url, str(tmp_path / NAME)]
    process = subprocess.Popen([sys.executable, "-c", code, *arguments])
    part = tmp_path / f"{NAME}.part"
    try:
        end = time.monotonic() + 60
        while not (part.is_file() and part.stat().st_size > 40_000) and time.monotonic() < end:
            assert process.poll() is None
            time.sleep(0.02)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert not (tmp_path / NAME).exists()
    size = part.stat().st_size
    assert 40_000 < size <= 60_000
    mirrors[0].hold.set()
    assert fetch(tmp_path, mirrors[0]) == WHOLE
    assert mirrors[0].asked == [0, size]


def test_two_processes_do_not_download_one_file(mirrors, tmp_path):
    with Guard(tmp_path / NAME), pytest.raises(DataError, match="another process is making this"):
        fetch(tmp_path, mirrors[0])
    assert mirrors[0].asked == []


def test_a_folder_that_cannot_be_written_is_named_and_is_not_blamed_on_the_source(
    mirrors, tmp_path
):
    (tmp_path / "data").write_text("a file")
    with pytest.raises(DataError) as error:
        _sources.download(published(mirrors[0]), tmp_path / "data" / NAME)
    message = sentence(error)
    assert f"{tmp_path / 'data' / NAME} cannot be written" in message
    assert "data_folder" in message


def test_a_full_disk_is_named_and_is_not_blamed_on_the_source(mirrors, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError) as error:
        fetch(tmp_path, *mirrors)
    assert "cannot be written (No space left on device); free some space" in sentence(error)
    assert not (tmp_path / NAME).exists()
    assert mirrors[1].asked == []


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
    with pytest.raises(DataError) as error:
        fetch(tmp_path, mirrors[0])
    assert f"{tmp_path / NAME} is damaged or incomplete (wrong checksum)" in sentence(error)
    assert listing(tmp_path) == {NAME: content}


def test_a_bar_is_shown_on_a_terminal(mirrors, tmp_path, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    fetch(tmp_path, mirrors[0])
    assert NAME in terminal.getvalue()
    assert "100%" in terminal.getvalue()


def test_nothing_is_shown_in_a_log(mirrors, tmp_path, capsys):
    fetch(tmp_path, mirrors[0])
    assert capsys.readouterr() == ("", "")
