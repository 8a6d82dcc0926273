"""lambda_max of the Hessian and of Gauss-Newton, against curvlinops with ARPACK."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import torch
from curvlinops import GGNLinearOperator, HessianLinearOperator
from scipy.sparse.linalg import eigsh
from torch import Tensor, nn

from benchmarks.timing import paired, report
from flatlab.derivatives.hessian_products import gauss_newton_product, hessian_product, trainable
from flatlab.derivatives.lanczos import RESIDUAL, largest_eigenvalue
from flatlab.losses import loss_of
from flatlab.networks import lenet5, resnet

SAMPLES, CLASSES = 256, 10
LOSS = loss_of({"loss": "cross-entropy"})
MATRICES = {
    "H": (hessian_product, HessianLinearOperator),
    "GN": (gauss_newton_product, GGNLinearOperator),
}


def networks() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    torch.manual_seed(0)
    lenet = lenet5.Options(activation="relu")
    narrow = resnet.Options(activation="relu", widths=(8, 16, 32))
    return {
        "LeNet5": (lenet5.build((3, 32, 32), CLASSES, lenet), torch.randn(SAMPLES, 3, 32, 32)),
        "ResNet 8-16-32": (
            resnet.build((3, 16, 16), CLASSES, narrow),
            torch.randn(SAMPLES, 3, 16, 16),
        ),
    }


def ours(product: Any, model: nn.Module, x: Tensor, y: Tensor, start: Tensor) -> float:
    targets = nn.functional.one_hot(y, CLASSES).to(x)
    return largest_eigenvalue(product(model, [(x, targets)], LOSS), start).value


def arpack(operator: Any, model: nn.Module, x: Tensor, y: Tensor, start: Tensor) -> float:
    parts = model, nn.CrossEntropyLoss(), [*model.parameters()], [(x, y)]
    linear = operator(*parts, check_deterministic=False)
    given = {"k": 1, "which": "LA", "tol": RESIDUAL, "v0": start.numpy()}
    return float(eigsh(linear.to_scipy(), return_eigenvectors=False, **given)[0])


def eigenvalues() -> None:
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
                assert abs(values[0] / values[1] - 1) < 1e-3, (name, matrix, values)
                times = paired(*pair, slow=True)
            report(f"{name}, lambda_max of {matrix}", *times, "curvlinops with ARPACK")
