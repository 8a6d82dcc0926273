"""How the C library of this process keeps memory that was freed."""

import contextlib
import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h


def keep_freed_memory() -> None:
    """Let glibc reuse freed memory: by default it returns pages that are asked for again at once.

    A tenth to a third of the time of small networks would go into page faults.
    """
    with contextlib.suppress(AttributeError, OSError):  # another C library
        set_option = ctypes.CDLL(None).mallopt
        set_option(M_TRIM_THRESHOLD, 2**28)
        set_option(M_MMAP_THRESHOLD, 2**25)  # the largest that it accepts
