"""Choose how many samples, or outputs of one, are differentiated at a time, or estimate instead."""

from collections.abc import Callable
from typing import Any

import psutil
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from flatlab.derivatives.per_sample.probe import Findings

CHUNK_BYTES = {"cpu": 2**25, "cuda": 2**31}
"""Derivatives held at a time: larger batches are no faster, and on a CPU slower."""
TOGETHER = 3
"""Times as much for several networks: fewer calls outweigh what the cache loses."""
CHUNK_SAMPLES = 5
"""The fewest samples at a time if `LARGE` allows: smaller products are slow."""
LARGE = 2**30
"""Bytes of derivatives that are held at a time for that reason alone."""
BUDGET = 2**32
"""Bytes of derivatives of one sample, unless a budget is given: the same on every machine."""
SMALL = 2**26
"""Bytes that are there without asking the operating system, which takes a millisecond."""


def fits(findings: Findings, inputs: Tensor, budget: int | None = None) -> bool:
    """Whether all derivatives of one sample fit in memory at once.  budget: in bytes."""
    held = held_by_one(findings, inputs)
    return held <= min(SMALL, budget or SMALL) or held <= limit(inputs.device, budget)


def limit(device: torch.device, budget: int | None) -> int:
    """Bytes that derivatives may take: the budget, but no more than is free."""
    return min(budget or BUDGET, available(device))


def held_by_one(findings: Findings, inputs: Tensor) -> int:
    """Bytes of the derivatives of one sample, and of their Gram matrices."""
    rows, numbers = findings.outputs, findings.numbers
    grams = 8 * rows * min(rows, numbers) * (2 * len(findings.layers) + 4)
    return 2 * rows * numbers * inputs.element_size() + grams


def samples_at_a_time(
    findings: Findings, inputs: Tensor, budget: int | None = None, count: int | None = None
) -> int:
    """How many samples fit at a time; batches are of equal size.

    count: samples of several networks, of which those of more are taken at a time; None: inputs.
    """
    room = CHUNK_BYTES.get(inputs.device.type, CHUNK_BYTES["cuda"]) * (TOGETHER if count else 1)
    count = count or len(inputs)
    each = 2 * findings.outputs * findings.numbers * inputs.element_size()
    held = held_by_one(findings, inputs)
    fewest = CHUNK_SAMPLES if CHUNK_SAMPLES * held <= LARGE else 1
    wanted = max(fewest, room // each)
    most = min(count, wanted)
    if most * held > min(SMALL, budget or SMALL):
        free = available(inputs.device) // 2
        most = max(1, min(most, min(free, budget or free) // held))
    return -(-count // -(-count // most))


def available(device: torch.device) -> int:
    """Bytes of memory that are free; on a GPU also those that torch keeps for later use."""
    if device.type != "cuda":
        return psutil.virtual_memory().available
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + kept


def held_while(build: Callable[[], Any]) -> int:
    """Bytes of the tensors that autograd keeps while a function builds a graph."""
    held: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        held[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda kept: kept):
        build()
    return sum(held.values())


def fitting(build: Callable[[], Any], budget: int | None, most: int) -> int:
    """How many samples, at most `most`, keep graphs within a budget; at least one.

    build: the graph of one sample.
    budget: in bytes; None: there is none.
    """
    if budget is None:
        return most
    return min(most, max(budget // max(held_while(build), 1), 1))


AFFORDABLE = 0.02
"""The relative standard error of `auto` where it estimates."""
RESIDUAL = 1e-2
"""Relative residual of the largest singular values: their error is about its square."""


def accuracy_of(
    accuracy: str | float, findings: Findings, inputs: Tensor, budget: int | None
) -> float | None:
    """The relative standard error wanted; None: exact.

    accuracy: the option of a family.
    """
    if accuracy == "auto":
        return None if fits(findings, inputs, budget) else AFFORDABLE
    return None if accuracy == "exact" else float(accuracy)
