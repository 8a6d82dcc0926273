"""Importing torch faster: without searching for garbage, of which imports make next to none."""

import contextlib
import gc
import sys
from collections.abc import Iterator

from flatlab.lab.jobs.gpus import visible_gpus

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
