"""Errors of a training, and what to change where the memory is not sufficient."""

import contextlib
import gc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch


class TrainError(RuntimeError):
    """A training that cannot be done as declared; the message names the key to change."""


class Interrupted(RuntimeError):
    """A training that was asked to stop, and has saved its state."""


@contextlib.contextmanager
def explained_memory_errors(packs: Sequence[Mapping[str, Any]], device: str) -> Iterator[None]:
    """Say which keys to change if the memory is not sufficient; give a GPU's back at the end.

    packs: the settings of the packs that are trained inside.
    device: `cpu` or `cuda`.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        out_of_memory = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not out_of_memory and "allocate memory" not in str(error):  # an ordinary error, on a CPU
            raise
        runs = sum(len(settings["runs"]) for settings in packs)
        raise TrainError(
            f"out of memory with {runs} networks at a time; smaller blocks of `seeds` in the grid, "
            "training.mode graphs or loop, or a smaller training.batch_size need less"
        ) from None
    finally:
        if device == "cuda":
            gc.collect()  # an error's traceback keeps what it passed through
            clear_workspaces: Any = torch._C._cuda_clearCublasWorkspaces  # one for each stream
            clear_workspaces()
            torch.cuda.empty_cache()
