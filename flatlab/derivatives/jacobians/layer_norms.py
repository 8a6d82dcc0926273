"""||J||_2 of each sample, in the inputs of a network and of its layers, without forming any J."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn.attention import SDPBackend, sdpa_kernel

from flatlab.core.errors import MeasureError
from flatlab.derivatives.jacobians.golub_kahan import KEPT, largest_singular_values
from flatlab.derivatives.per_sample.hooks import pulled_back, recorded
from flatlab.derivatives.per_sample.probe import Findings, run
from flatlab.derivatives.per_sample.source import reading
from flatlab.derivatives.second_order.second_pass import SecondPass

CLOSE = 1e-3
"""Of a product and its transpose."""
WANDERING = 0.1
"""The share of a random direction in a start from a known one, lest it miss a larger value."""
MOST = 100
"""Iterations of Golub and Kahan."""


class PathJacobian:
    """J of each sample in what lies at some edges of a graph, as two linear maps.

    J v is the derivative of the linear map u -> J^T u, as in `golub_kahan.Jacobian`.
    """

    def __init__(
        self,
        outputs: Tensor,
        edges: Sequence[GradientEdge],
        dual: Tensor,
        pulled: Sequence[Tensor],
        tick: Callable[[], None],
    ) -> None:
        """outputs: (samples, N).  edges: whose derivatives J has.  pulled: J^T dual at them."""
        self.outputs, self.edges, self.dual, self.pulled = outputs, edges, dual, pulled
        self.tick = tick

    def transposed_times(self, u: Tensor) -> Tensor:
        self.tick()
        rows = pulled_back(self.outputs, self.edges, u)
        return torch.cat([row.reshape(len(u), -1) for row in rows], 1)

    def times(self, v: Tensor) -> Tensor:
        self.tick()
        parts = v.split([pulled.numel() // len(v) for pulled in self.pulled], 1)
        moving = [(p, w.view_as(p)) for p, w in zip(self.pulled, parts, strict=True)]
        moving = [(p, w) for p, w in moving if p.requires_grad]
        if not moving:  # the outputs do not depend on it
            return torch.zeros_like(self.outputs)
        along, weights = zip(*moving, strict=True)
        (forth,) = torch.autograd.grad(along, self.dual, weights, **KEPT)
        return forth.detach()


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

    model: maps (batch, ...) to (batch, N), each sample on its own.
    inputs: (samples, ...), with the model's dtype and on its device.
    findings: of `checked_findings`.
    layers: those wanted, of `findings.layers`.
    residual: wanted.
    size: samples at a time.
    seed: of the start of the last layer.
    tick: called at each product.

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
        start, values, residuals = None, [], []
        for jacobian in reversed(jacobians):
            norms = largest_singular_values(
                jacobian, residual, MOST, seed, start=start, by_residual=True
            )
            left = norms.left
            generator = torch.Generator().manual_seed(seed)
            random = torch.randn(left.shape[1], generator=generator).to(left)
            start = left + WANDERING * random / random.norm() if left.isfinite().all() else None
            values.append(norms.values)
            residuals.append(norms.residuals)
    if len(jacobians) == len(layers):  # J is that of the first layer
        values.append(values[-1])
        residuals.append(residuals[-1])
    return torch.stack(values[::-1], 1), torch.stack(residuals[::-1], 1)


def _check_second(jacobian: PathJacobian) -> None:
    """Refuse a second backward pass that is not that of the first: <u, J J^T u> = |J^T u|^2."""
    outputs = jacobian.outputs.detach()
    u = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(0)).to(outputs)
    pulled = jacobian.transposed_times(u)
    there, back = pulled.double().square().sum(), (u.double() * jacobian.times(pulled)).sum()
    if abs(there - back) > CLOSE * there:  # not if it is not finite
        raise MeasureError(
            "the network's second backward pass is not that of its first, so no iteration finds "
            "||J||_2; accuracy='exact' needs none"
        )
