"""The lock of an output: a file beside it, so that two processes never write the same file.

Snakemake's own lock covers a working directory, and `--unlock` removes it even while jobs run.
This one belongs to the process that computes, on whichever host that is.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from flatlab.store import StoreError, make_folder, replace

BEAT_S = 5.0
"""How often the holder touches the lock."""

STALE_S = 60.0
"""A lock on another host is abandoned if its date stays the same this long while we watch.

Dates are only compared for change, because the clocks of hosts differ. A network file system may
show another host's changes half a minute late.
"""

_TOKEN = uuid.uuid4().hex
_UNKNOWN = {"host": "unknown", "pid": 0, "start": "unknown", "place": "", "born": "", "token": ""}

_dead: set[str] = set()
"""Tokens of processes found dead: a job with several outputs leaves several locks."""


class Guard:
    """Holds the lock of one output while the process writes it.

    A lock is taken over when its process has ended (same host) or its heartbeat has stopped (other
    hosts). If its holder is alive, entering raises `StoreError`; a job of a cluster waits instead,
    because nobody is there to start it again.
    """

    def __init__(self, output: str | Path) -> None:
        self.output = Path(output)
        self.path = self.output.with_name(f"{self.output.name}.lock")
        self.about = {
            "host": platform.node(),
            "pid": os.getpid(),
            "born": _born(os.getpid()),
            "start": time.strftime("%Y-%m-%d %H:%M:%S"),
            "place": _place(),
            "token": _TOKEN,
        }
        self._stop = threading.Event()

    def __enter__(self) -> Guard:
        make_folder(self.path.parent)
        told = False
        while not self._create():
            holder = self._holder()
            if holder is None:
                continue  # released a moment ago
            if not self._lives(holder):
                _dead.update({holder["token"]} - {""})
                self._remove_dead(holder)
                continue
            sentence = (
                f"{self.output}: another process is making this file (host {holder['host']}, "
                f"process {holder['pid']}, since {holder['start']})"
            )
            if "SLURM_JOB_ID" not in os.environ:
                raise StoreError(f"{sentence}; wait for it or stop it")
            if not told:
                print(f"{sentence}; waiting for it to end", file=sys.stderr, flush=True)
            told = True
            time.sleep(BEAT_S)
        self._beat = threading.Thread(target=self._renew, daemon=True)
        self._beat.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._beat.join()
        if self._is_ours():
            self.path.unlink(missing_ok=True)

    def check(self) -> None:
        """Raise `StoreError` if the lock is lost; call this before writing the output.

        Another process may have taken over while this one was suspended.
        """
        if not self._is_ours():
            raise StoreError(f"{self.output}: the lock was lost while this process was suspended")

    def _is_ours(self) -> bool:
        holder = self._holder()
        return holder is not None and holder["token"] == self.about["token"]

    def _create(self) -> bool:
        """Create the lock, with its content; False if there is one already."""
        draft = self.path.with_name(f"{self.path.name}.{self.about['token']}")
        replace(draft, json.dumps(self.about).encode())
        try:
            os.link(draft, self.path)  # atomic: nobody ever sees an empty lock
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def _holder(self) -> dict[str, Any] | None:
        """The content and the date of the lock at the same moment."""
        try:
            with self.path.open() as file:  # opening makes a network file system ask its server
                return {**_read(file.read()), "date": os.fstat(file.fileno()).st_mtime_ns}
        except FileNotFoundError:
            return None

    def _lives(self, holder: dict[str, Any]) -> bool:
        if holder["token"] in _dead:
            return False
        if holder["place"] == _place():
            return _born(holder["pid"]) == holder["born"]
        patience = time.monotonic() + STALE_S
        while time.monotonic() < patience:
            now = self._holder()
            if now is None or (now["token"], now["date"]) != (holder["token"], holder["date"]):
                return True  # a heartbeat, or the lock has changed hands: look again
            time.sleep(min(1.0, BEAT_S))
        return False

    def _remove_dead(self, holder: dict[str, Any]) -> None:
        """Remove an abandoned lock; if several processes try, one succeeds."""
        grave = self.path.with_name(f"{self.path.name}.{self.about['token']}.dead")
        try:
            os.rename(self.path, grave)
        except FileNotFoundError:
            return
        if _read(grave.read_text())["token"] != holder["token"]:
            os.rename(grave, self.path)  # a faster process has already locked it anew
        else:
            grave.unlink()

    def _renew(self) -> None:
        while not self._stop.wait(BEAT_S):
            try:
                os.utime(self.path)
            except OSError:
                return


def _read(text: str) -> dict[str, Any]:
    """What a lock says about its holder; one that a crash has emptied says nothing."""
    try:
        return {**_UNKNOWN, **json.loads(text)}
    except ValueError:
        return dict(_UNKNOWN)


def _place() -> str:
    """Where a process number is meaningful: this boot of this machine, and this container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return platform.node()


def _born(process: int) -> str:
    """When a process of this place started: it tells two processes with the same number apart.

    Empty if there is no such process.
    """
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except FileNotFoundError:
        pass
    if Path("/proc/self/stat").exists():
        return ""
    try:  # not Linux: the number alone must do
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass  # alive, and another user's
    return "unknown"
