"""How a job keeps memory: what was freed is used again, what imports made is not searched.

A job of small networks takes some seconds. A good part of them would go into searching for garbage,
of which imports make next to none, and into page faults for memory that was just returned.
"""

import contextlib
import ctypes
import gc
import sys
from collections.abc import Iterator

from flatlab.lab.jobs.gpus import visible_gpus

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
