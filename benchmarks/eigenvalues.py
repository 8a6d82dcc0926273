"""lambda_max of the Hessian and of Gauss-Newton, against curvlinops with ARPACK."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from curvlinops import GGNLinearOperator, HessianLinearOperator
from torch import Tensor

from benchmarks.spectrum import arpack
from benchmarks.timing import paired, report
from benchmarks.trained import LOSS, Trained, trained
from flatlab.derivatives.second_order.hessian_products import gauss_newton_product, hessian_product
from flatlab.derivatives.second_order.lanczos import largest_eigenvalue

MATRICES = {
    "H": (hessian_product, HessianLinearOperator),
    "GN": (gauss_newton_product, GGNLinearOperator),
}


def ours(product: Any, network: Trained, start: Tensor) -> float:
    return largest_eigenvalue(product(network.model, network.batches, LOSS), start).value


def eigenvalues() -> None:
    """Both to the same relative residual, after a few steps of training, in float32."""
    for name, network in trained().items():
        start = network.start()
        for matrix, (product, operator) in MATRICES.items():
            pair = (
                partial(ours, product, network, start),
                partial(arpack, operator, network, start, 1),
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns of itself
                values = pair[0](), float(pair[1]()[0])
                assert abs(values[0] / values[1] - 1) < 1e-3, (name, matrix, values)
                times = paired(*pair, slow=True)
            report(f"{name}, lambda_max of {matrix}", *times, "curvlinops with ARPACK")
