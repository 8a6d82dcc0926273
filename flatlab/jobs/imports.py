"""Importing torch faster: without searching for garbage, of which imports make next to none."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def quick_imports() -> Iterator[None]:
    """Import large packages; garbage is collected afterwards, but what lives then is not searched.

    Jobs of small networks take some seconds, one of which would go into searching the objects of
    torch, all of which live as long as the process.
    """
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:  # once, since garbage would be frozen too
            gc.freeze()
        gc.enable()
