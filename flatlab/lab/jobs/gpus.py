"""Which GPU a job uses: one of its own, on a machine with several.

Snakemake counts GPUs but does not assign them, so a job looks for one that no other job of flatlab
holds. A cluster shows each job only its own GPU, and with one visible there is nothing to choose.
"""

import contextlib
import fcntl
import os
import re
import sys
import tempfile
import time
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"
POLL_S = 1.0


def visible_gpus() -> list[str]:
    """The names in `CUDA_VISIBLE_DEVICES`, or the numbers of all devices of this machine."""
    if (named := os.environ.get(VISIBLE)) is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    return [str(number) for number, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]


def take_gpu() -> None:
    """Show this process one GPU that no other job holds; wait while all are held.

    Call this before the first use of CUDA, which stays on the GPU that it has found: so does the
    process, in all its tasks. The GPU is held through a lock on an open file, which the operating
    system releases when the process ends, however it ends.
    """
    if len(gpus := visible_gpus()) > 1:
        os.environ[VISIBLE] = _free(gpus)


def _free(gpus: list[str]) -> str:
    """A GPU that was free; its file stays open."""
    told = False
    while True:
        for gpu in gpus:
            file = _open(gpu)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return gpu
            except BlockingIOError:
                os.close(file)
        if not told:
            print(f"all of {len(gpus)} GPUs are taken; waiting for one", file=sys.stderr)
        told = True
        time.sleep(POLL_S)


def _open(gpu: str) -> int:
    """The file that stands for a GPU, shared by all users of this machine."""
    folder = Path(tempfile.gettempdir(), "flatlab-gpus")
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(0o1777)
    path = folder / re.sub(r"[^\w-]", "_", gpu)
    try:
        return os.open(path, os.O_RDONLY)  # enough for a lock, also on another user's file
    except FileNotFoundError:
        return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
