"""Arithmetic that repeats bit for bit."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from flatlab.lab.train.errors import TrainError
from flatlab.precision import float32_products


@contextlib.contextmanager
def deterministic_arithmetic(packs: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Algorithms that repeat bit for bit; TF32 products only if `precision` says so.

    packs: the settings of the packs that are trained inside; raises `TrainError` where some of them
    have TF32 and others not.

    Denormal numbers count as zero: the momentum of a dead unit decays into them and stays there,
    which slows a CPU down, although no weight is moved by more than 1e-38.
    """
    precisions = {settings["training"]["precision"] for settings in packs}
    tf32 = "tf32" in precisions
    if tf32 and len(precisions) > 1:
        raise TrainError("packs with training.precision tf32 are trained apart from others")
    flags: list[tuple[Any, str, bool]] = [
        # Filling memory helps to find errors, and costs time.
        (torch.utils.deterministic, "fill_uninitialized_memory", False),
        (torch.backends.cudnn, "benchmark", False),
    ]
    flushed = not torch.tensor(torch.finfo(torch.float32).tiny).div(2).item()
    with contextlib.ExitStack() as undo:
        undo.enter_context(float32_products(tf32))
        for holder, name, value in flags:
            undo.callback(setattr, holder, name, getattr(holder, name))
            setattr(holder, name, value)
        undo.callback(torch.set_deterministic_debug_mode, torch.get_deterministic_debug_mode())
        torch.set_deterministic_debug_mode("error")
        undo.callback(torch.set_flush_denormal, flushed)
        torch.set_flush_denormal(True)
        yield
