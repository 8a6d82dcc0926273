"""Ten eigenvalues of the Hessian and of Gauss-Newton, against curvlinops with ARPACK."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import eigsh
from torch import Tensor, nn

from benchmarks.eigenvalues import CLASSES, LOSS, MATRICES, SAMPLES, networks
from benchmarks.timing import paired, report
from flatlab.derivatives.hessian_products import trainable
from flatlab.derivatives.krylov import extreme_eigenvalues
from flatlab.derivatives.lanczos import RESIDUAL

COUNT = 10


def ours(product: Any, model: nn.Module, x: Tensor, y: Tensor, start: Tensor) -> np.ndarray:
    targets = nn.functional.one_hot(y, CLASSES).to(x)
    matrix = product(model, [(x, targets)], LOSS)
    return extreme_eigenvalues(matrix, start, COUNT, residual=RESIDUAL).values


def arpack(operator: Any, model: nn.Module, x: Tensor, y: Tensor, start: Tensor) -> np.ndarray:
    parts = model, nn.CrossEntropyLoss(), [*model.parameters()], [(x, y)]
    linear = operator(*parts, check_deterministic=False)
    given = {"k": COUNT, "which": "LA", "tol": RESIDUAL, "v0": start.numpy()}
    found = eigsh(linear.to_scipy(), return_eigenvectors=False, **given)
    return np.asarray(found)[::-1]


def spectrum() -> None:
    """Both to the same relative residual, after a few steps of training, in float32."""
    y = torch.arange(SAMPLES) % CLASSES
    for name, (model, x) in networks().items():
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(20):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        given = model.eval(), x, y, torch.randn(sum(p.numel() for p in trainable(model)))
        for matrix, (product, operator) in MATRICES.items():
            pair = partial(ours, product, *given), partial(arpack, operator, *given)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns of itself
                values = [each() for each in pair]
                assert np.allclose(*values, rtol=1e-3), (name, matrix, values)
                times = paired(*pair, slow=True, repeats=3)
            report(f"{name}, 10 eigenvalues of {matrix}", *times, "curvlinops with ARPACK")
