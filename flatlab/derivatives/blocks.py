"""Intermediate products in blocks: on a CPU they should stay in the cache."""

from __future__ import annotations

from torch import Tensor

BLOCK_BYTES = {"cpu": 2**22}
BLOCK_BYTES_ELSEWHERE = 2**28


def block(tensor: Tensor, numbers: int) -> int:
    """How many times `numbers` numbers like those of the tensor fit a block, at least once."""
    size = BLOCK_BYTES.get(tensor.device.type, BLOCK_BYTES_ELSEWHERE)
    return max(1, size // (numbers * tensor.element_size()))
