"""One writer of an output at a time."""

import contextlib
import os
import subprocess
import sys
import threading
import time

import pytest

from flatlab.core import store
from flatlab.lab.jobs import lock as guards
from flatlab.lab.jobs.lock import Guard
from tests.refusals import refusal


def lock(output, **about):
    """A lock file as another process would have left it."""
    path = output.with_name(f"{output.name}.lock")
    with Guard(output):
        lines = dict(line.split("=") for line in path.read_text().splitlines()[1:])
    lines |= {"token": "0" * 32, **about}
    path.write_text("\n".join(["filelock/2", *(f"{k}={v}" for k, v in lines.items()), ""]))
    return path


@pytest.fixture
def impatient(monkeypatch):
    """Heartbeats and patience in fractions of a second."""
    monkeypatch.setattr(guards, "BEAT_S", 0.02)
    monkeypatch.setattr(guards, "STALE_S", 0.5)


@contextlib.contextmanager
def beating(path, **about):
    """Somebody elsewhere renews a lock, whose clock is an hour wrong."""
    end = threading.Event()

    def beat():
        date = time.time() - 3600
        while not end.wait(0.05):
            date += 0.05
            with contextlib.suppress(FileNotFoundError):
                os.utime(path, (date, date))

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def test_a_second_writer_is_refused_with_the_holder_named(tmp_path):
    output = tmp_path / "a.json"
    with Guard(output):
        message = refusal(store.StoreError, Guard(output).__enter__)
        for part in (str(output), os.uname().nodename, str(os.getpid())):
            assert part in message
    assert list(tmp_path.iterdir()) == []


def test_a_second_writer_on_a_cluster_waits(tmp_path, impatient, monkeypatch, capsys):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    output = tmp_path / "a.json"
    first = Guard(output)
    first.__enter__()
    threading.Timer(0.3, lambda: first.__exit__(None, None, None)).start()
    start = time.monotonic()
    with Guard(output):
        assert time.monotonic() - start > 0.2
    assert capsys.readouterr().err.count("waiting for it to end") == 1


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path, impatient):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    lock(tmp_path / "a.json", pid=dead.pid)
    with Guard(tmp_path / "a.json"):
        pass
    lock(tmp_path / "a.json", start=12345)  # our own number, which another process had before
    with Guard(tmp_path / "a.json"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_of_another_machine_counts_while_its_heart_beats(tmp_path, impatient):
    """By change alone: the dates that another machine's clock gives mean nothing."""
    output = tmp_path / "a.json"
    path = lock(output, host="elsewhere", pid=1)
    with beating(path), pytest.raises(store.StoreError, match="host elsewhere, process 1"):
        Guard(output).__enter__()
    for skew in (-3600, 3600):
        path = lock(output.with_name(f"{skew}.json"), pid=1, host="elsewhere")
        os.utime(path, (time.time() + skew, time.time() + skew))
        start = time.monotonic()
        with Guard(output.with_name(f"{skew}.json")):
            assert time.monotonic() - start > guards.STALE_S / 2


def test_a_lock_that_a_crash_has_emptied_is_named(tmp_path, impatient):
    (tmp_path / "a.json.lock").touch()
    with pytest.raises(store.StoreError, match=r"if it has ended, delete .*a\.json\.lock"):
        Guard(tmp_path / "a.json").__enter__()


def test_who_lost_the_lock_may_not_write(tmp_path):
    """A process that was suspended, and whose lock was taken over, notices before it writes."""
    output = tmp_path / "a.json"
    with Guard(output) as guard:
        guard.check()
        theirs = guard.path.read_text().replace("pid=", "pid=1")
        (tmp_path / "theirs").write_text(theirs)
        (tmp_path / "theirs").replace(guard.path)
        with pytest.raises(store.StoreError, match="lock was lost"):
            guard.check()
    assert guard.path.read_text() == theirs


def test_the_heart_beats(tmp_path, monkeypatch):
    monkeypatch.setattr(guards, "BEAT_S", 0.01)
    with Guard(tmp_path / "a.json") as guard:
        os.utime(guard.path, (0, 0))
        deadline = time.time() + 10
        while guard.path.stat().st_mtime == 0 and time.time() < deadline:
            time.sleep(0.01)
        assert guard.path.stat().st_mtime > 0
