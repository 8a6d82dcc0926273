"""The lock of an output: a file beside it, so that two processes never write the same file.

Snakemake's own lock covers a working directory, and `--unlock` removes it even while jobs run.
This one belongs to the process that computes, on whichever host that is: filelock's lease, a file
with the host, number and start of its process, whose date is renewed as long as that lives.
"""

import os
import platform
import sys
from pathlib import Path

from filelock import SoftFileLease, Timeout

from flatlab.core.store import StoreError, make_folder, readable_os_errors

BEAT_S = 5.0
"""How often the holder touches the lock."""

STALE_S = 60.0
"""A lock on another host is abandoned if its date stays the same this long while we watch.

Dates are only compared for change, because the clocks of hosts differ. A network file system may
show another host's changes half a minute late.
"""


class Guard:
    """Holds the lock of one output while the process writes it.

    A lock is taken over when its process has ended (same host) or its heartbeat has stopped (other
    hosts). If its holder is alive, entering raises `StoreError`; a job of a cluster waits instead,
    because no one is there to start it again.
    """

    def __init__(self, output: str | Path) -> None:
        self.output = Path(output)
        self.path = self.output.with_name(f"{self.output.name}.lock")
        self._lease = SoftFileLease(
            self.path, lease_duration=STALE_S, heartbeat_interval=BEAT_S, thread_local=False
        )

    def __enter__(self) -> "Guard":
        make_folder(self.path.parent)
        with readable_os_errors(self.path):
            try:
                self._lease.acquire(timeout=0)
            except Timeout:
                self._wait()
        return self

    def _wait(self) -> None:
        owner = self._lease.owner
        host = owner.hostname.partition("?")[0] if owner else "unknown"  # without the container
        process = owner.pid if owner else "unknown"
        sentence = (
            f"{self.output}: another process is making this file (host {host}, process {process})"
        )
        # A process on this host is alive, or its lock would have been taken over at once.
        patience = 0 if host == platform.node() else STALE_S + 2 * BEAT_S
        if "SLURM_JOB_ID" in os.environ:
            print(f"{sentence}; waiting for it to end", file=sys.stderr, flush=True)
            patience = 1e9  # seconds: as long as it takes
        try:
            self._lease.acquire(timeout=patience, poll_interval=BEAT_S / 5)
        except Timeout:
            raise StoreError(
                f"{sentence}; wait for it or stop it; if it has ended, delete {self.path}"
            ) from None

    def __exit__(self, *error: object) -> None:
        self._lease.release()

    def check(self) -> None:
        """Raise `StoreError` if the lock is lost; call this before writing the output.

        Another process may have taken over while this one was suspended.
        """
        if not self._lease.is_lock_held_by_us:
            raise StoreError(f"{self.output}: the lock was lost while this process was suspended")
