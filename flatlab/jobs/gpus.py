"""Which GPU a job takes: one for itself, on a machine that has several.

Snakemake counts GPUs and does not say which; a job finds one that no other job of flatlab holds. A
cluster shows each job its own, and where one is visible there is nothing to choose.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"
POLL_S = 1.0


def visible_gpus() -> list[str]:
    """What `CUDA_VISIBLE_DEVICES` names, or the numbers of all devices of this machine."""
    if (named := os.environ.get(VISIBLE)) is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    return [str(number) for number, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]


@contextlib.contextmanager
def own_gpu() -> Iterator[None]:
    """Show this process one GPU that no other job holds; wait where all are held.

    To be entered before the first use of CUDA. What holds a GPU is an open file: the system lets go
    of it with the process, however that ends.
    """
    gpus = visible_gpus()
    if len(gpus) <= 1:
        yield
        return
    before = os.environ.get(VISIBLE)
    gpu, file = _take(gpus)
    os.environ[VISIBLE] = gpu
    try:
        yield
    finally:
        os.close(file)
        if before is None:
            del os.environ[VISIBLE]
        else:
            os.environ[VISIBLE] = before


def _take(gpus: list[str]) -> tuple[str, int]:
    told = False
    while True:
        for gpu in gpus:
            file = _open(gpu)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
            else:
                return gpu, file
        if not told:
            print(f"all of {len(gpus)} GPUs are taken; waiting for one", file=sys.stderr)
        told = True
        time.sleep(POLL_S)


def _open(gpu: str) -> int:
    """The file that stands for a GPU, for all users of this machine."""
    folder = Path(tempfile.gettempdir(), "flatlab-gpus")
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(0o1777)
    path = folder / re.sub(r"[^\w-]", "_", gpu)
    try:
        return os.open(path, os.O_RDONLY)  # enough for a lock, and allowed where it is another's
    except FileNotFoundError:
        return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
