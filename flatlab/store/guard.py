"""The guard of an output: a lock file beside it, so that two processes never make one file.

Snakemake's own lock covers a working directory and can be removed by `--unlock` while jobs live;
this one belongs to the process that computes, on whichever host it runs.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from flatlab.store.files import StoreError

BEAT_S = 5.0
"""How often the holder renews the lock's date."""

STALE_S = 60.0
"""A lock whose date is older belongs to nobody."""


class Guard:
    """Holds the lock of one output while a process makes it.

    Raises `StoreError` on entry where another living process holds it. A lock whose process is
    gone (same host), or whose heartbeat has stopped, is taken over.
    """

    def __init__(self, output: str | Path) -> None:
        self.output = Path(output)
        self.path = self.output.with_name(f"{self.output.name}.lock")
        self._stop = threading.Event()

    def __enter__(self) -> Guard:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        while not self._create():
            holder = self._holder()
            if holder and self._lives(holder):
                raise StoreError(
                    f"{self.output}: another process is making this file (host {holder['host']}, "
                    f"process {holder['pid']}, since {holder['start']}); wait for it or stop it"
                )
            self._remove_dead(holder)
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
        self.path.unlink(missing_ok=True)

    def _create(self) -> bool:
        about = {
            "host": platform.node(),
            "pid": os.getpid(),
            "start": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        draft.write_text(json.dumps(about))
        try:
            os.link(draft, self.path)  # atomic, and the lock is never seen empty
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def _holder(self) -> dict[str, Any] | None:
        try:
            age = time.time() - self.path.stat().st_mtime
            return {**json.loads(self.path.read_text()), "age": age}
        except (FileNotFoundError, ValueError):
            return None

    @staticmethod
    def _lives(holder: dict[str, Any]) -> bool:
        if holder["age"] > STALE_S:
            return False
        if holder["host"] != platform.node():
            return True
        try:
            os.kill(holder["pid"], 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # it lives and belongs to somebody else
        return True

    def _remove_dead(self, holder: dict[str, Any] | None) -> None:
        """Take a dead lock away; of several processes that try, one succeeds."""
        grave = self.path.with_name(f"{self.path.name}.{os.getpid()}.dead")
        try:
            os.rename(self.path, grave)
        except FileNotFoundError:
            return
        about = json.loads(grave.read_text())
        if holder and about != {key: holder[key] for key in about}:
            os.rename(grave, self.path)  # it is the new lock of a process that was faster
        else:
            grave.unlink()

    def _renew(self) -> None:
        while not self._stop.wait(BEAT_S):
            try:
                os.utime(self.path)
            except FileNotFoundError:
                return
