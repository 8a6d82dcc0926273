"""Ten eigenvalues of three matrices, against curvlinops with ARPACK and hessian-eigenthings.

Ours follow a second random start where eigenvalues could occur several times, which the others do
not look for; they are also timed without it (`once`), where the work is the same.
"""

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
from flatlab.derivatives.second_order.lanczos import RESIDUAL, Eigenpairs
from flatlab.derivatives.second_order.matrices import matrix_of

COUNT, MOST = 10, 400
MATRICES = {
    "H": ("hessian", HessianLinearOperator),
    "GN": ("gauss-newton", GGNLinearOperator),
    "Fisher": ("empirical-fisher", EFLinearOperator),
}
"""How they are called here, in flatlab, and by curvlinops."""


def ours(matrix: str, network: Trained, start: Tensor, repeated: bool = True) -> Eigenpairs:
    chosen = matrix_of(matrix, network.model, network.batches, LOSS)
    return chosen.eigenvalues(start, COUNT, residual=RESIDUAL, repeated=repeated)


def arpack(operator: Any, network: Trained, start: Tensor, count: int = COUNT) -> np.ndarray:
    """The largest eigenvalues, descending."""
    parts = network.model, nn.CrossEntropyLoss(), [*network.model.parameters()]
    linear = operator(*parts, [(network.x, network.y)], check_deterministic=False)
    given = {"k": count, "which": "LA", "tol": RESIDUAL, "v0": start.numpy()}
    values = eigsh(linear.to_scipy(), return_eigenvectors=False, **given)
    return np.asarray(values)[::-1]


def eigenthings(matrix: str, network: Trained, steps: int) -> Callable[[], np.ndarray]:
    """Lanczos of hessian-eigenthings, which is given its number of steps: as few as will do.

    steps: with which the search for that number starts.
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
    for count in range(max(steps, 2 * COUNT), MOST, 2):
        pairs = peer.lanczos(linear, max_iter=count, **given)
        if bool((pairs.residuals <= RESIDUAL * pairs.eigenvalues.abs()).all()):
            break
    else:
        raise RuntimeError(f"hessian-eigenthings: {matrix}: not converged in {MOST} products")
    return lambda: peer.lanczos(linear, max_iter=count, **given).eigenvalues.numpy()


def spectrum() -> None:
    """All to the same relative residual, after a few steps of training, in float32."""
    others = importlib.util.find_spec("hessian_eigenthings") is not None
    for name, network in trained().items():
        start = network.start()
        for matrix, (key, operator) in MATRICES.items():
            once = partial(ours, key, network, start, repeated=False)
            pairs = once()
            sides: dict[str, Any] = {
                "curvlinops with ARPACK": partial(arpack, operator, network, start)
            }
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns of itself
                if others:
                    steps = pairs.products - 10  # about what will do from another start
                    sides["hessian-eigenthings"] = eigenthings(key, network, steps)
                for side in sides.values():
                    assert np.allclose(side(), pairs.values, rtol=1e-3), (name, matrix)
                whole = partial(ours, key, network, start)
                times = paired(whole, once, *sides.values(), slow=True)
            for other, seconds in zip(sides, times[2:], strict=True):
                report(f"{name}, {COUNT} eigenvalues of {matrix}", times[0], seconds, other)
                report(f"{name}, of {matrix}, once", times[1], seconds, other)
    if not others:
        print("hessian-eigenthings is not installed (make peers installs it): not compared with")
