"""Norms of a layer's weights: of the matrix, of the convolution as an operator, of the authors."""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
import torch
import torch.nn.functional as F
from torch import Tensor

from flatlab.derivatives.per_sample.convolution import CONVOLUTIONS, padded

Norms = dict[Hashable, float]
"""Norms of the weights of one network that are known already, by what they are the norms of."""

DENSE = 128
"""The size up to which a dense eigensolver is as fast as an iteration."""


def known(norms: Norms, key: Hashable, norm: Callable[[], float]) -> float:
    """A norm, which is computed where it is not known yet."""
    if key not in norms:
        norms[key] = norm()
    return norms[key]


def spectral_norm(matrix: Tensor) -> float:
    """Largest singular value of (O, D), from the smaller Gram matrix; NaN if not finite.

    For large matrices by an iteration, until the relative residual of the eigenvalue is 1e-4 in
    float32 or 1e-12 in float64: the error is about the square of that, and at most that.
    """
    wide = matrix.shape[0] <= matrix.shape[1]
    gram = (matrix @ matrix.mT if wide else matrix.mT @ matrix).cpu().numpy()
    if not np.isfinite(gram).all():
        return float("nan")
    last = len(gram) - 1
    if last < DENSE:
        largest = scipy.linalg.eigh(
            gram, eigvals_only=True, subset_by_index=[last, last], check_finite=False
        )[0]
    else:
        largest = _largest(gram, 1e-4 if gram.dtype == np.float32 else 1e-12)
    return float(np.sqrt(max(largest, 0.0)))


def operator_norm(layer: Any, input_shape: tuple[int, ...]) -> float:
    """Largest singular value of the linear map T from feature maps to feature maps.

    layer: a convolution; of a linear layer it is `spectral_norm`.
    input_shape: (channels, ...) of one sample.

    By an iteration on T^T T, until the relative residual of the eigenvalue is 1e-5 in float32 or
    1e-12 in float64; the relative error of the norm is about the residual's square, at most half
    of it.
    """
    weight = layer.weight.detach()
    if not isinstance(layer, CONVOLUTIONS):
        return spectral_norm(weight)
    if not weight.isfinite().all():
        return float("nan")
    convolve = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[weight.ndim]
    geometry = layer.stride, 0, layer.dilation, layer.groups

    def apply(x: Tensor) -> Tensor:
        return convolve(padded(x, layer), weight, None, *geometry)

    with torch.enable_grad():
        x = weight.new_zeros(1, *input_shape).requires_grad_()
        y = apply(x)

        def normal_map(v: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                image = apply(torch.from_numpy(v).to(weight).view_as(x))
            (back,) = torch.autograd.grad(y, x, image, retain_graph=True)
            return back.double().cpu().numpy().ravel()

        tolerance = 1e-5 if weight.dtype == torch.float32 else 1e-12
        size = x.numel()
        if size < 3:  # too small for the iteration
            square = np.stack([*map(normal_map, np.eye(size))])
            return spectral_norm(torch.from_numpy(square)) ** 0.5
        operator = scipy.sparse.linalg.LinearOperator((size, size), matvec=normal_map, dtype=float)
        return float(np.sqrt(max(_largest(operator, tolerance), 0.0)))


def authors_norm(layer: Any, positions: int) -> float:
    """sqrt(positions) ||K||_F of a convolution, ||W||_F of a linear layer (chen2026's code)."""
    norm = float(torch.linalg.vector_norm(layer.weight.detach()))
    return norm * positions**0.5 if isinstance(layer, CONVOLUTIONS) else norm


def _largest(operator: Any, tolerance: float) -> float:
    """Largest eigenvalue of a symmetric, nonnegative map, by ARPACK from a fixed start."""
    start = np.random.default_rng(0).standard_normal(operator.shape[0]).astype(operator.dtype)
    if not (operator @ start).any():
        return 0.0  # ARPACK refuses the zero map
    (largest,) = scipy.sparse.linalg.eigsh(
        operator, k=1, which="LA", v0=start, tol=tolerance, return_eigenvectors=False
    )
    return float(largest)
