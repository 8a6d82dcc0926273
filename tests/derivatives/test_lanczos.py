"""The work of Lanczos' method, and its vector after many products."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from flatlab.derivatives.lanczos import largest_eigenvalue


class Operations(TorchDispatchMode):
    """Counts the operations of torch."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def test_a_product_of_lanczos_takes_as_many_operations_however_many_came_before(normal):
    values, start = torch.linspace(0, 1, 300, dtype=torch.float64), normal(300)
    counts = {}
    for most in (9, 20, 40, 80):
        with Operations() as operations:
            found = largest_eigenvalue(lambda v: values * v, start, 0.0, most)
        counts[most] = operations.count
        residual = values * found.vector - found.value * found.vector
        assert found.vector.norm().item() == pytest.approx(1, rel=1e-12)
        assert residual.norm().item() / found.value == pytest.approx(found.residual, rel=1e-6)
    assert counts[80] - counts[40] <= 2.2 * (counts[40] - counts[20])
