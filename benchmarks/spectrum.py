"""Ten eigenvalues of three matrices, against curvlinops with ARPACK and hessian-eigenthings."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from curvlinops import EFLinearOperator, GGNLinearOperator, HessianLinearOperator
from scipy.sparse.linalg import eigsh
from torch import Tensor, nn

from benchmarks.timing import paired, report
from benchmarks.trained import LOSS, Trained, trained
from flatlab.derivatives.krylov import AGAIN, Eigenpairs, extreme_eigenvalues
from flatlab.derivatives.lanczos import RESIDUAL
from flatlab.derivatives.matrices import product_of

COUNT = 10
MATRICES = {
    "H": ("hessian", HessianLinearOperator),
    "GN": ("gauss-newton", GGNLinearOperator),
    "Fisher": ("empirical-fisher", EFLinearOperator),
}
"""How they are called here, in flatlab, and by curvlinops."""


def ours(matrix: str, network: Trained, start: Tensor) -> Eigenpairs:
    product = product_of(matrix, network.model, network.batches, LOSS)
    return extreme_eigenvalues(product, start, COUNT, residual=RESIDUAL)


def arpack(operator: Any, network: Trained, start: Tensor, count: int = COUNT) -> np.ndarray:
    """The largest eigenvalues, descending."""
    parts = network.model, nn.CrossEntropyLoss(), [*network.model.parameters()]
    linear = operator(*parts, [(network.x, network.y)], check_deterministic=False)
    given = {"k": count, "which": "LA", "tol": RESIDUAL, "v0": start.numpy()}
    values = eigsh(linear.to_scipy(), return_eigenvectors=False, **given)
    return np.asarray(values)[::-1]


def eigenthings(matrix: str, network: Trained, steps: int) -> Callable[[], np.ndarray]:
    """Lanczos of hessian-eigenthings, which is given its number of steps: as few as will do.

    steps: of which it is known that they will do for us, from another start.
    """
    import hessian_eigenthings as peer

    data = network.model, [(network.x, network.y)]
    loss = nn.functional.cross_entropy
    linear: Any
    if matrix == "hessian":
        linear = peer.HessianOperator(*data, peer.supervised_loss(loss))
    elif matrix == "gauss-newton":
        of_output = peer.supervised_loss_of_output(loss)
        linear = peer.GGNOperator(*data, peer.supervised_forward, of_output)
    else:
        linear = peer.EmpiricalFisherOperator(*data, peer.supervised_per_sample_loss(loss))
    given = {"k": COUNT, "which": "LA", "seed": 0, "reorthogonalize": True}
    for count in range(max(steps - 10, 2 * COUNT), 2 * steps, 2):
        pairs = peer.lanczos(linear, max_iter=count, **given)
        if bool((pairs.residuals <= RESIDUAL * pairs.eigenvalues.abs()).all()):
            break
    else:
        raise RuntimeError(f"hessian-eigenthings: {matrix}: not converged in {2 * steps} products")
    return lambda: peer.lanczos(linear, max_iter=count, **given).eigenvalues.numpy()


def spectrum() -> None:
    """All to the same relative residual, after a few steps of training, in float32."""
    others = importlib.util.find_spec("hessian_eigenthings") is not None
    for name, network in trained().items():
        start = network.start()
        for matrix, (key, operator) in MATRICES.items():
            pairs = ours(key, network, start)
            sides: dict[str, Any] = {
                "curvlinops with ARPACK": partial(arpack, operator, network, start)
            }
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns of itself
                if others:
                    steps = pairs.products - AGAIN
                    sides["hessian-eigenthings"] = eigenthings(key, network, steps)
                for side in sides.values():
                    assert np.allclose(side(), pairs.values, rtol=1e-3), (name, matrix)
                times = paired(partial(ours, key, network, start), *sides.values(), slow=True)
            for other, seconds in zip(sides, times[1:], strict=True):
                report(f"{name}, {COUNT} eigenvalues of {matrix}", times[0], seconds, other)
    if not others:
        print("hessian-eigenthings is not installed (make peers installs it): not compared with")
