"""Compute ||W||_2 of layers, and ||J||_2 of each sample in the inputs of networks and layers."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge
from torch.nn.attention import SDPBackend, sdpa_kernel

from flatlab.core.errors import MeasureError
from flatlab.derivatives.jacobians.golub_kahan import PathJacobian, largest_singular_values
from flatlab.derivatives.per_sample.convolution import CONVOLUTIONS, padded
from flatlab.derivatives.per_sample.hooks import recorded
from flatlab.derivatives.per_sample.probe import Findings, reading, run
from flatlab.derivatives.second_order.second_pass import SecondPass

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


CLOSE = 1e-3
"""Of a product and its transpose."""
WANDERING = 0.1
"""The share of a random direction in a start from a known one, lest it miss a larger value."""
MOST = 100
"""Iterations of Golub and Kahan."""


@dataclass(frozen=True)
class NormsOfLayers:
    """Largest singular values, relative residuals |J v - sigma u| / sigma: (samples, 1 + layers).

    The first column is that of the network, the others of the layers.
    """

    values: Tensor
    residuals: Tensor


def norms_of_layers(
    model: nn.Module,
    inputs: Tensor,
    findings: Findings,
    *,
    layers: Sequence[str],
    residual: float,
    size: int,
    seed: int = 0,
    tick: Callable[[], None] = lambda: None,
) -> NormsOfLayers:
    """||J||_2 and ||J^l||_2 by Golub-Kahan bidiagonalization, stopped on its residual.

    layers: those wanted, of `findings.layers`.
    residual: wanted.
    seed: of the start of the last layer.

    From the last layer to the first, each starts from the left singular vector of the one behind
    it, which is a similar direction of the outputs, and from a part of a random one.
    """
    parts = [
        _of_batch(model, batch, findings, list(layers), residual, seed, tick)
        for batch in inputs.split(size)
    ]
    return NormsOfLayers(*(torch.cat(same) for same in zip(*parts, strict=True)))


def _of_batch(
    model: nn.Module,
    inputs: Tensor,
    findings: Findings,
    layers: list[str],
    residual: float,
    seed: int,
    tick: Callable[[], None],
) -> tuple[Tensor, Tensor]:
    x = inputs.detach().clone().requires_grad_(inputs.is_floating_point())
    modules = {name: findings.modules[name] for name in layers}
    with (
        sdpa_kernel(SDPBackend.MATH),  # others have no second derivative
        recorded(modules) as uses,
        reading(model, x) as source,
    ):
        with SecondPass(linear=True):
            outputs = run(model, x)
        paths = [[get_gradient_edge(source.leaf)]]
        if findings.direct and layers[:1] == findings.layers[:1]:
            paths = []
        paths += [[use.into for use in uses if use.name == name] for name in layers]
        dual = torch.zeros_like(outputs, requires_grad=True)
        edges = [edge for path in paths for edge in path]
        flags = {"create_graph": True, "materialize_grads": True}
        pulled = iter(torch.autograd.grad(outputs, edges, dual, **flags))
        jacobians = [
            PathJacobian(outputs, path, dual, [next(pulled) for _ in path], tick) for path in paths
        ]
        _check_second(jacobians[0])
        start, found = None, []
        for jacobian in reversed(jacobians):
            norms = largest_singular_values(
                jacobian, residual, MOST, seed, start=start, by_residual=True
            )
            left = norms.left
            generator = torch.Generator().manual_seed(seed)
            random = torch.randn(left.shape[1], generator=generator).to(left)
            start = left + WANDERING * random / random.norm() if left.isfinite().all() else None
            found.append((norms.values, norms.residuals))
    if len(jacobians) == len(layers):  # J is that of the first layer
        found.append(found[-1])
    values, residuals = zip(*found[::-1], strict=True)
    return torch.stack(values, 1), torch.stack(residuals, 1)


def _check_second(jacobian: PathJacobian) -> None:
    """Refuse a second backward pass that is not that of the first: <u, J J^T u> = |J^T u|^2."""
    outputs = jacobian.outputs.detach()
    u = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(0)).to(outputs)
    pulled = jacobian.transposed_times(u)
    there, back = pulled.double().square().sum(), (u.double() * jacobian.times(pulled)).sum()
    if abs(there - back) > CLOSE * there:  # not if it is not finite
        raise MeasureError(
            "the second backward pass contradicts the first, so ||J||_2 cannot be iterated; pass "
            "accuracy='exact'"
        )
