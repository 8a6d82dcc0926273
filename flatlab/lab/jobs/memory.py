"""How a job uses its machine: freed memory again, what imports made unsearched, and one GPU.

A job of small networks takes some seconds. A good part of them would go into searching for garbage,
of which imports make next to none, and into page faults for memory that was just returned.

Snakemake counts GPUs but does not assign them, so a job looks for one that no other job of flatlab
holds. A cluster shows each job only its own GPU, and with one visible there is nothing to choose.
"""

import contextlib
import ctypes
import fcntl
import gc
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"
POLL_S = 1.0
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
TRITON = "triton"
"""Torch's compiler for GPUs. At the end of a process it reports as leaks what was not collected."""


@contextlib.contextmanager
def quick_imports() -> Iterator[None]:
    """Import large packages; garbage is collected afterwards, but what lives then is not searched.

    Jobs of small networks take some seconds, one of which would go into searching the objects of
    torch, all of which live as long as the process. Without a GPU, torch is not given triton.
    """
    gc.disable()
    if not visible_gpus():
        sys.modules.setdefault(TRITON, None)  # type: ignore[arg-type]  # importing it fails
    try:
        yield
    finally:
        if sys.modules.get(TRITON, TRITON) is None:
            del sys.modules[TRITON]
        if gc.get_freeze_count() == 0:  # once, since garbage would be frozen too
            freeze()
        gc.enable()


def freeze() -> None:
    """Search nothing of what lives now for garbage again, unless triton would complain of that."""
    if TRITON not in sys.modules:
        gc.freeze()


def keep_freed_memory() -> None:
    """Let glibc reuse freed memory: by default it returns pages that are asked for again at once.

    A tenth to a third of the time of small networks would go into page faults.
    """
    with contextlib.suppress(AttributeError, OSError):  # another C library
        set_option = ctypes.CDLL(None).mallopt
        set_option(M_TRIM_THRESHOLD, 2**28)
        set_option(M_MMAP_THRESHOLD, 2**25)  # the largest that it accepts


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
