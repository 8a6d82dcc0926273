"""Ten eigenvalues of H and of Gauss-Newton, against curvlinops and hessian-eigenthings."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from curvlinops import HessianLinearOperator
from scipy.sparse.linalg import eigsh
from torch import Tensor, nn

from benchmarks.eigenvalues import CLASSES, LOSS, MATRICES, SAMPLES, networks
from benchmarks.timing import paired, report
from flatlab.derivatives.hessian_products import trainable
from flatlab.derivatives.krylov import AGAIN, Eigenpairs, extreme_eigenvalues
from flatlab.derivatives.lanczos import RESIDUAL

COUNT = 10
OPERATORS = {HessianLinearOperator: "HessianOperator"}
"""Of hessian-eigenthings, by that of curvlinops."""


def ours(product: Any, model: nn.Module, x: Tensor, y: Tensor, start: Tensor) -> Eigenpairs:
    targets = nn.functional.one_hot(y, CLASSES).to(x)
    matrix = product(model, [(x, targets)], LOSS)
    return extreme_eigenvalues(matrix, start, COUNT, residual=RESIDUAL)


def arpack(operator: Any, model: nn.Module, x: Tensor, y: Tensor, start: Tensor) -> np.ndarray:
    parts = model, nn.CrossEntropyLoss(), [*model.parameters()], [(x, y)]
    linear = operator(*parts, check_deterministic=False)
    given = {"k": COUNT, "which": "LA", "tol": RESIDUAL, "v0": start.numpy()}
    found = eigsh(linear.to_scipy(), return_eigenvectors=False, **given)
    return np.asarray(found)[::-1]


def eigenthings(
    operator: Any, model: nn.Module, x: Tensor, y: Tensor, start: Tensor, steps: int
) -> Callable[[], np.ndarray]:
    """Lanczos of hessian-eigenthings, which is given the number of `steps`: as few as will do."""
    from hessian_eigenthings import operators
    from hessian_eigenthings.algorithms.lanczos import lanczos
    from hessian_eigenthings.loss_fns.standard import supervised_loss

    kind = getattr(operators, OPERATORS[operator])
    loss = supervised_loss(nn.functional.cross_entropy)
    linear = kind(model, [(x, y)], loss)
    while True:
        found = lanczos(linear, k=COUNT, max_iter=steps, which="LA", seed=0, reorthogonalize=True)
        if bool((found.residuals <= RESIDUAL * found.eigenvalues.abs()).all()):
            break
        steps += 4

    def again() -> np.ndarray:
        best = lanczos(linear, k=COUNT, max_iter=steps, which="LA", seed=0, reorthogonalize=True)
        return best.eigenvalues.numpy()

    return again


def spectrum() -> None:
    """All to the same relative residual, after a few steps of training, in float32."""
    y = torch.arange(SAMPLES) % CLASSES
    others = importlib.util.find_spec("hessian_eigenthings") is not None
    for name, (model, x) in networks().items():
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(20):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        given = model.eval(), x, y, torch.randn(sum(p.numel() for p in trainable(model)))
        for matrix, (product, operator) in MATRICES.items():
            found = ours(product, *given)
            sides: dict[str, Any] = {"curvlinops with ARPACK": partial(arpack, operator, *given)}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns of itself
                if others and matrix == "H":
                    sides["hessian-eigenthings"] = eigenthings(
                        operator, *given, found.products - AGAIN
                    )
                for side in sides.values():
                    assert np.allclose(side(), found.values, rtol=1e-3), (name, matrix)
                times = paired(partial(ours, product, *given), *sides.values(), slow=True)
            for other, seconds in zip(sides, times[1:], strict=True):
                report(f"{name}, 10 eigenvalues of {matrix}", times[0], seconds, other)
    if not others:
        print("hessian-eigenthings is not installed: it is not compared with")
