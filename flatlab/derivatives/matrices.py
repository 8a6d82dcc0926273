"""Products with the curvature matrices of a network, by name."""

from collections.abc import Callable

import torch
from torch import nn

from flatlab.derivatives.hessian_products import (
    Batches,
    Product,
    empirical_fisher_product,
    gauss_newton_product,
    hessian_product,
    trainable,
)
from flatlab.derivatives.second_pass import with_second_pass
from flatlab.losses._base import Loss

PRODUCTS: dict[str, Callable[[nn.Module, Batches, Loss, float | None], Product]] = {
    "hessian": hessian_product,
    "gauss-newton": gauss_newton_product,
    "fisher": gauss_newton_product,
    "empirical-fisher": empirical_fisher_product,
}


def product_of(
    matrix: str, model: nn.Module, batches: Batches, loss: Loss, step: float | None = None
) -> Product:
    """v -> A v, A one of `PRODUCTS`, whose function takes the other arguments.

    By the cheap second pass, where a product of the first batch with it is that of torch's own.
    """

    def make(chosen: Batches) -> Product:
        return PRODUCTS[matrix](model, chosen, loss, step)

    if step is not None:  # differences need no second backward pass
        return make(batches)
    linear, first = matrix != "hessian", batches[:1]
    like = torch.cat([parameter.detach().flatten() for parameter in trainable(model)])
    vector = torch.randn(len(like), generator=torch.Generator().manual_seed(0)).to(like)
    expected = make(first)(vector)
    off = torch.linalg.vector_norm(with_second_pass(lambda: make(first), linear)(vector) - expected)
    if not off <= torch.finfo(like.dtype).eps ** 0.5 * torch.linalg.vector_norm(expected):
        return make(batches)
    return with_second_pass(lambda: make(batches), linear)
