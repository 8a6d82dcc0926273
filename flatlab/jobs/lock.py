"""The guard of an output: a lock file beside it, so that two processes never make one file.

Snakemake's own lock covers a working directory and can be removed by `--unlock` while jobs live;
this one belongs to the process that computes, on whichever host it runs.
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
from types import TracebackType
from typing import Any

from flatlab.store import StoreError, make_folder, replace

BEAT_S = 5.0
"""How often the holder renews the lock's date."""

STALE_S = 60.0
"""A lock whose date stays the same for so long, while we look, belongs to nobody.

Only change counts, not the date itself: clocks of machines differ. Files of other machines may be
seen half a minute late.
"""

_TOKEN = uuid.uuid4().hex
_UNKNOWN = {"host": "unknown", "pid": 0, "start": "unknown", "place": "", "born": "", "token": ""}

_dead: set[str] = set()
"""Tokens of processes that this one has found dead: a job has locks on several outputs."""


class Guard:
    """Holds the lock of one output while a process makes it.

    A lock whose process is gone (same machine), or whose heartbeat has stopped, is taken over.
    Where another living process holds it `StoreError` is raised on entry; a job of a cluster waits
    for it instead, since nobody is there to start it again.
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
                continue  # it has just been released
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
                print(f"{sentence}; waiting for its end", file=sys.stderr, flush=True)
            told = True
            time.sleep(BEAT_S)
        self._beat = threading.Thread(target=self._renew, daemon=True)
        self._beat.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._beat.join()
        if self._is_ours():
            self.path.unlink(missing_ok=True)

    def check(self) -> None:
        """Raise `StoreError` where the lock is lost: to be called before the output is written.

        A process that was suspended for long finds that another one has taken over.
        """
        if not self._is_ours():
            raise StoreError(f"{self.output}: the lock was lost while this process stood still")

    def _is_ours(self) -> bool:
        holder = self._holder()
        return holder is not None and holder["token"] == self.about["token"]

    def _create(self) -> bool:
        draft = self.path.with_name(f"{self.path.name}.{self.about['token']}")
        replace(draft, json.dumps(self.about).encode())
        try:
            os.link(draft, self.path)  # atomic, and the lock is never seen empty
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def _holder(self) -> dict[str, Any] | None:
        """What stands in the lock, and its date, of the same moment."""
        try:
            with self.path.open() as file:  # opening also asks the server of a network's folder
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
            if now is None or now["token"] != holder["token"]:
                return True  # it has changed hands: look again
            if now["date"] != holder["date"]:
                return True
            time.sleep(min(1.0, BEAT_S))
        return False

    def _remove_dead(self, holder: dict[str, Any]) -> None:
        """Take a dead lock away; of several processes that try, one succeeds."""
        grave = self.path.with_name(f"{self.path.name}.{self.about['token']}.dead")
        try:
            os.rename(self.path, grave)
        except FileNotFoundError:
            return
        if _read(grave.read_text())["token"] != holder["token"]:
            os.rename(grave, self.path)  # it is the new lock of a process that was faster
        else:
            grave.unlink()

    def _renew(self) -> None:
        while not self._stop.wait(BEAT_S):
            try:
                os.utime(self.path)
            except OSError:
                return


def _read(text: str) -> dict[str, Any]:
    """What a lock says of its holder; one that a crash has emptied says nothing."""
    try:
        return {**_UNKNOWN, **json.loads(text)}
    except ValueError:
        return dict(_UNKNOWN)


def _place() -> str:
    """Where the number of a process means something: machine, its last start, its container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return platform.node()


def _born(process: int) -> str:
    """When a process of this place began, which tells it from a later one of the same number.

    Empty where there is none.
    """
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except FileNotFoundError:
        pass
    if Path("/proc/self/stat").exists():
        return ""
    try:  # not Linux: a number must do
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass  # it lives and belongs to somebody else
    return "unknown"
