"""Sizes of blocks of intermediate products, which should stay in the cache of a CPU."""

from torch import Tensor

BLOCK_BYTES = {"cpu": 2**22}
BLOCK_BYTES_ELSEWHERE = 2**28


def block(tensor: Tensor, numbers: int) -> int:
    """How many items of `numbers` numbers, of the tensor's type, fit into a block; at least one."""
    size = BLOCK_BYTES.get(tensor.device.type, BLOCK_BYTES_ELSEWHERE)
    return max(1, size // (numbers * tensor.element_size()))
