"""Second derivatives of each sample's loss with respect to the output of a linear layer.

A linear layer z = W x + b that sees one vector x of each sample has, with H^z = d^2 l / dz^2, the
Hessian of the mean loss in its weights with blocks, for rows s and t of W,

    H_{s,t} = mean_i (H^z_i)_{s,t} x_i x_i^T.

H^z is d^2 l / df^2 for the last layer, Gamma^T (d^2 l / df^2) Gamma with Gamma = df/dz if all that
follows the layer is piecewise linear, and otherwise the second derivative by two backward passes.
Source: petzka2021 Def. 3 and 13, in the form of docs/measures/flatness.md.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge
from torch.nn.attention import SDPBackend, sdpa_kernel

from flatlab.core.errors import MeasureError
from flatlab.core.progress import ProgressBar
from flatlab.derivatives.per_sample.hooks import Use, recorded, rows_of_jacobian
from flatlab.derivatives.per_sample.probe import Findings, run
from flatlab.derivatives.second_order.lanczos import largest_eigenvalue
from flatlab.derivatives.second_order.second_pass import piecewise_linear
from flatlab.losses._base import Loss, NoClosedForm

BYTES = 2**27
"""Of graphs and second derivatives held at a time."""
DENSE = 128
"""The size up to which all eigenvalues are as fast as an iteration for the largest one."""
RESIDUAL = 1e-9
"""Of that iteration; the error is at most that, and mostly about its square."""
MOST = 1000
"""Steps of that iteration."""


def ineligible_layers(model: nn.Module, inputs: Tensor, findings: Findings) -> dict[str, str]:
    """Layers without relative flatness, with the reason.

    It is for linear layers that see one vector of each sample.
    """
    modules = {name: findings.modules[name] for name in findings.layers}
    two = inputs[:2]
    with recorded(modules) as uses:
        run(model, two)
    times = Counter(use.name for use in uses)
    weights = Counter(id(module.weight) for module in modules.values())
    reasons = {}
    for use in uses:
        reason = ""
        if not isinstance(use.module, nn.Linear):
            reason = f"it is a {type(use.module).__name__}"
        elif times[use.name] > 1:
            reason = f"it is used {times[use.name]} times"
        elif use.x.ndim != 2 or len(use.x) != len(two):
            reason = "it sees several positions of a sample"
        elif weights[id(use.module.weight)] > 1 or f"{use.name}.weight" in findings.generic:
            reason = "its weight is also used elsewhere"
        if reason:
            reasons[use.name] = reason
    return reasons


def layer_curvatures(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor | None,
    loss: Loss,
    modules: Mapping[str, Any],
    findings: Findings,
    *,
    size: int | None,
    twice: bool,
    progress: bool,
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Of a few samples at a time, and each layer: its name, x (samples, m), H^z (samples, d, d).

    modules: linear layers by name, for which `ineligible_layers` has no reason.
    targets: (samples, N), needed where the network behind a layer is curved; None: `MeasureError`
        there.
    size: samples at a time; None: as many as keep graphs and second derivatives within `BYTES`.
    twice: whether a second backward pass is right; if not, `MeasureError` where one is needed.

    x and H^z are in float64.
    """
    widths = [findings.outputs, *(len(module.weight) for module in modules.values())]
    # The graph is held once for each row of the widest second derivative.
    each = sum(width**2 for width in widths) + findings.numbers * (1 + findings.outputs)
    size = size or max(1, BYTES // (inputs.element_size() * each))
    chunks = range(0, len(inputs), size)
    with ProgressBar("curvatures of layers", len(modules) * len(chunks), progress) as forecast:
        for start in chunks:
            here = slice(start, start + size)
            with sdpa_kernel(SDPBackend.MATH), recorded(modules) as uses:
                outputs = run(model, inputs[here])
            wanted = None if targets is None else targets[here]
            for use in uses:
                hessian = _hessian(use, outputs, wanted, loss, twice)
                yield use.name, use.x.double(), hessian.detach().double()
                forecast.tick()


def _hessian(use: Use, outputs: Tensor, targets: Tensor | None, loss: Loss, twice: bool) -> Tensor:
    """H^z of one layer: (samples, d, d)."""
    if piecewise_linear(outputs, use.out):
        curved = output_curvature(outputs, loss, targets)
        if get_gradient_edge(outputs).node is use.out.node:
            return curved
        (gamma,) = rows_of_jacobian(outputs, [use.out])
        gamma = gamma.transpose(0, 1).double()
        return gamma.mT @ curved @ gamma
    if not twice:
        raise MeasureError(
            f"behind layer {use.name!r} the network has no second derivatives, which its relative "
            "flatness needs; name other layers in flatness_layers, or set flatness: [traces]"
        )
    if targets is None:
        raise MeasureError(
            f"the network behind layer {use.name!r} is not piecewise linear, so the curvature of "
            "the loss there depends on the targets; pass classes, or output values"
        )
    total = loss.values(outputs.double(), targets.double()).sum()
    (slope,) = torch.autograd.grad(total, [use.out], create_graph=True)
    return rows_of_jacobian(slope, [use.out])[0].transpose(0, 1)


@torch.no_grad()
def output_curvature(outputs: Tensor, loss: Loss, targets: Tensor | None = None) -> Tensor:
    """d^2 l / df^2 of each sample: (samples, N) -> (samples, N, N), in float64.

    targets: (samples, ...), for a loss whose second derivative depends on them.

    In float32 a probability close to 1 would leave no digits of p (1 - p).
    """
    outputs = outputs.detach().double()
    unit = torch.eye(outputs.shape[1]).to(outputs).expand(len(outputs), -1, -1)
    try:
        return loss.hessian_product(outputs[:, None], unit)
    except NoClosedForm:
        if targets is None:
            raise
    count = outputs.shape[1]
    rows, wanted = (part.repeat_interleave(count, 0) for part in (outputs, targets.double()))
    return loss.curved(rows, unit.flatten(0, 1), wanted).view_as(unit)


def largest_of_blocks(
    x: Tensor, curvature: Tensor, tick: Callable[[], None] = lambda: None
) -> Tensor:
    """The largest eigenvalue of sum_i c_is x_i x_i^T for each s: (d,).

    x: (samples, m).  curvature: c, (samples, d), of any sign.  tick: called after each s.
    """
    samples, features = x.shape
    if samples < features and (curvature < 0).any():  # in the space that the x span
        x = torch.linalg.qr(x.T, mode="r").R.T
    largest = x.new_zeros(curvature.shape[1])
    for s, c in enumerate(curvature.T):
        largest[s] = _largest(x, c)
        tick()
    spanned = (curvature != 0).sum(0)
    return torch.where(spanned < features, largest.clamp(min=0), largest)


def _largest(x: Tensor, c: Tensor) -> float:
    """Of sum_i c_i x_i x_i^T in the space of the x_i. Behind a ReLU many c are 0."""
    x, c = x[c != 0], c[c != 0]
    if len(x) == 0:
        return 0.0
    if len(x) < x.shape[1] and (c > 0).all():
        x = (c.sqrt()[:, None] * x).T  # Y^T Y and Y Y^T have the same eigenvalues, but for zeros
        c = torch.ones_like(x[:, 0])
    size = x.shape[1]
    if size <= DENSE:
        return torch.linalg.eigvalsh(x.T @ (c[:, None] * x))[-1].item()
    start = torch.randn(size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return largest_eigenvalue(lambda v: x.T @ (c * (x @ v)), start.to(x), RESIDUAL, MOST).value
