"""Matrix-vector products with the Hessian, Gauss-Newton and Fisher matrices.

The cheapest implementation that is exact for the network is chosen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.derivatives.second_order.hessian_products import (
    Batches,
    Product,
    empirical_fisher_product,
    gauss_newton_product,
    hessian_product,
    trainable,
)
from flatlab.derivatives.second_order.krylov import Eigenpairs, extreme_eigenvalues
from flatlab.derivatives.second_order.sample_gradients import (
    are_few,
    gradient_rows,
    largest_of_rows,
    product_of_rows,
)
from flatlab.derivatives.second_order.second_pass import with_second_pass
from flatlab.losses._base import Loss

PRODUCTS: dict[str, Callable[[nn.Module, Batches, Loss, float | None], Product]] = {
    "hessian": hessian_product,
    "gauss-newton": gauss_newton_product,
    "fisher": gauss_newton_product,
    "empirical-fisher": empirical_fisher_product,
}
TRIED = 16
"""Samples whose products by two ways are compared."""


@dataclass(frozen=True)
class Matrix:
    """A symmetric matrix A.

    product: v -> A v.
    rows: R with A = R^T R, where they are few; else None.
    """

    product: Product
    rows: Tensor | None = None

    def eigenvalues(
        self, start: Tensor, largest: int, smallest: int = 0, residual: float = 1e-4, **how: Any
    ) -> Eigenpairs:
        """Those of `extreme_eigenvalues`, with its arguments; from R R^T where that does."""
        pairs = None
        if self.rows is not None and not smallest:
            pairs = largest_of_rows(self.rows, largest, residual)
        if pairs is not None:
            return pairs
        return extreme_eigenvalues(self.product, start, largest, smallest, residual=residual, **how)


def matrix_of(
    name: str,
    model: nn.Module,
    batches: Batches,
    loss: Loss,
    step: float | None = None,
    alone: bool = True,
) -> Matrix:
    """One of `PRODUCTS`, whose function takes the other arguments.

    alone: the network maps each sample on its own.

    By few rows, or by the cheap second pass, where products of some samples are torch's own.
    """

    def make(chosen: Batches) -> Product:
        return PRODUCTS[name](model, chosen, loss, step)

    if step is not None:  # differences need no second backward pass
        return Matrix(make(batches))
    some = [(inputs[:TRIED], targets[:TRIED]) for inputs, targets in batches[:1]]
    like = torch.cat([parameter.detach().flatten() for parameter in trainable(model)])
    vector = torch.randn(len(like), generator=torch.Generator().manual_seed(0)).to(like)
    expected = make(some)(vector)

    def right(make_product: Callable[[Batches], Product | None]) -> bool:
        try:
            product = make_product(some)
            off = vector.new_tensor(torch.inf) if product is None else product(vector) - expected
        except (MeasureError, RuntimeError):  # what follows does not take this order of numbers
            return False
        allowed = torch.finfo(like.dtype).eps ** 0.5 * torch.linalg.vector_norm(expected)
        return bool(torch.linalg.vector_norm(off) <= allowed)

    def by_rows(chosen: Batches) -> Product | None:
        rows = gradient_rows(name, model, chosen, loss)
        return None if rows is None else product_of_rows(rows)

    def cheap(chosen: Batches) -> Product:
        return with_second_pass(lambda: make(chosen), name != "hessian")

    def by_pixel(chosen: Batches) -> Product:
        return cheap([(_by_pixel(inputs), targets) for inputs, targets in chosen])

    if alone and are_few(name, model, batches, loss) and right(by_rows):
        rows = gradient_rows(name, model, batches, loss)
        if rows is not None:
            return Matrix(product_of_rows(rows), rows)
    ways = [by_pixel, cheap] if _faster_by_pixel(model, batches[0][0]) else [cheap]
    return Matrix(next((way for way in ways if right(way)), make)(batches))


def _faster_by_pixel(model: nn.Module, inputs: Tensor) -> bool:
    """The derivatives of max pooling lose this order, which is slower than to do without."""
    images = inputs.ndim == 4 and inputs.device.type == "cpu"
    return images and not any(isinstance(module, nn.MaxPool2d) for module in model.modules())


def _by_pixel(inputs: Tensor) -> Tensor:
    """With the channels of a pixel side by side, for which CPU convolutions are faster."""
    return inputs.contiguous(memory_format=torch.channels_last)
