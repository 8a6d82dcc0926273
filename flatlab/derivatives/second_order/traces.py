"""Traces of the Hessian of a loss in the parameters: exact where that is feasible, or estimated.

If a network is piecewise linear and uses each parameter once, second derivatives of its outputs in
one parameter are zero, and the trace is that of the Gauss-Newton matrix J^T (d^2 l / df^2) J at
every theta. With d^2 l / df^2 = C C^T that is ||d(C^T f)/dtheta||_F^2, from one backward pass.
Otherwise it is the sum of one product with the Hessian for each parameter, or is estimated from
products with random signs.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from flatlab.core.errors import MeasureError
from flatlab.core.progress import ProgressBar
from flatlab.derivatives.estimates.random_directions import HELD, drawn, samples_of_directions
from flatlab.derivatives.estimates.random_traces import (
    TraceParts,
    Vector,
    random_trace,
    signs,
    unit,
)
from flatlab.derivatives.per_sample.engine import derivatives
from flatlab.derivatives.per_sample.forward_pass import checked_findings
from flatlab.derivatives.per_sample.probe import Findings, probe, run
from flatlab.derivatives.second_order.hessian_products import hessian_product, trainable
from flatlab.derivatives.second_order.second_pass import piecewise_linear
from flatlab.losses._base import Loss, NoClosedForm

FEW = 1000
"""Parameters up to which one product for each of them is cheaper than it is worth estimating."""
PROBES = 100
"""Random signs, unless an accuracy is wanted."""
BYTES = 2**26
"""Of the graphs of second derivatives held at a time, unless a batch size is given."""


class Curved(nn.Module):
    """C^T f, where C is constant and d^2 l / df^2 = C C^T, for a loss that is convex in f."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, x: Tensor) -> Tensor:
        outputs = self.model(x)
        try:
            root = self.loss.hessian_root(outputs.detach())
        except ValueError as error:
            raise MeasureError(f"{error}; set hessian_traces: random") from None
        return (outputs[:, None] @ root.to(outputs))[:, 0]


def hessian_traces(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    loss: Loss,
    findings: Findings,
    how: str,
    accuracy: float | None,
    *,
    size: int | None,
    step: float | None,
    budget: int | None,
    seed: int,
    progress: bool,
) -> TraceParts:
    """Of the mean loss (the sum for a loss that is one) of a network in evaluation mode.

    In all trainable parameters, and in the weights of each layer: (1 + layers), NaN for a layer
    that is frozen.

    findings: of `probe`, whose layers have traces.
    how: `exact`, `random`, or `auto`: exact where the network is piecewise linear or has few
        parameters.
    accuracy: a relative standard error, until which signs are drawn: of outputs where the network
        is piecewise linear, otherwise of parameters; None: as `how` says, of `PROBES` signs.
    step: of differences of gradients in place of a second backward pass.
    budget: bytes for vectors and derivatives; None: the same on every machine.
    """
    with sdpa_kernel(SDPBackend.MATH):  # fused attention has no second derivative
        linear = how != "random" and piecewise_linear(run(model, inputs[:2]))
        if linear and _has_closed_form(loss, targets, findings.outputs):
            return _gauss_newton(model, inputs, loss, findings.layers, size, accuracy, seed)
        theta = trainable(model)
        count = sum(parameter.numel() for parameter in theta)
        size = size or max(1, BYTES // (4 * findings.numbers * inputs.element_size()))
        like = theta[0].detach()
        parts = partial(_products, model, inputs, targets, loss, size, progress, step)
        if how == "exact" or (how == "auto" and count <= FEW and accuracy is None):
            sums = parts([partial(unit, count, k, like) for k in range(count)])
            traces = TraceParts(sums.sum(0), sums[:0], "exact")
        elif accuracy is None:
            sums = parts([partial(signs, count, seed, k, like) for k in range(PROBES)])
            traces = TraceParts(torch.zeros_like(sums[0]), sums, "hutchinson")
        else:
            held = (budget or HELD) // 2
            traces = random_trace(parts, like, count, accuracy, seed, held)
    return _of_layers(model, findings.layers, theta, traces)


def _of_layers(
    model: nn.Module, layers: Sequence[str], theta: Sequence[nn.Parameter], traces: TraceParts
) -> TraceParts:
    """The traces of all parameters and of the weights of layers.  traces: by parameter."""
    places = {id(parameter): place for place, parameter in enumerate(theta)}
    layer_places = [places.get(id(model.get_submodule(name).weight)) for name in layers]

    def table(rows: Tensor) -> Tensor:
        missing = torch.full_like(rows[:, 0], torch.nan)
        of_layers = (missing if place is None else rows[:, place] for place in layer_places)
        return torch.stack([rows.sum(1), *of_layers], 1)

    return TraceParts(table(traces.exact[None])[0], table(traces.draws), traces.way)


def _has_closed_form(loss: Loss, targets: Tensor, outputs: int) -> bool:
    """Whether the second derivative of the loss in the outputs follows from these alone."""
    zero = torch.zeros(1, outputs).to(targets.device, torch.float64)
    try:
        loss.hessian_product(zero, zero)
    except NoClosedForm:
        return False
    return True


def _gauss_newton(
    model: nn.Module,
    inputs: Tensor,
    loss: Loss,
    layers: Sequence[str],
    size: int | None,
    accuracy: float | None,
    seed: int,
) -> TraceParts:
    curved = Curved(model, loss)
    names = [".".join(filter(None, ["model", name])) for name in layers]
    if accuracy is not None:
        return _along_outputs(curved, inputs, names, size, accuracy, seed)
    exact = derivatives(curved, inputs, adaptive=False, batch_size=size)
    of_layers = {layer.name: layer.weight2 for layer in exact.layers}
    sums = [exact.sharpness, *(of_layers[name] for name in names)]
    values = loss.share(1, len(inputs)) * torch.stack(sums).double().sum(1)
    for place, name in enumerate(names, start=1):
        if f"{name}.weight" in exact.findings.frozen:
            values[place] = torch.nan
    return TraceParts(values, values[None][:0], "exact")


def _along_outputs(
    curved: Curved,
    inputs: Tensor,
    names: Sequence[str],
    size: int | None,
    accuracy: float,
    seed: int,
) -> TraceParts:
    """The trace of J^T C C^T J, from derivatives along random signs of C^T f."""
    findings = checked_findings(curved, inputs[:2], probe(curved, inputs))
    how: dict[str, Any] = {"of": ["sharpness"], "adaptive": False, "seed": seed, "progress": False}
    how["size"] = size or samples_of_directions(findings, inputs, HELD)
    squares = drawn(curved, inputs, findings, accuracy, **how).squares
    share = curved.loss.share(1, len(inputs))
    missing = torch.full_like(squares["", "sharpness"], torch.nan)
    parts = [squares["", "sharpness"]]
    for name in names:
        frozen = f"{name}.weight" in findings.frozen
        parts.append(missing if frozen else squares.get((name, "weight2"), missing))
    table = share * torch.stack([part.sum(2).flatten() for part in parts], 1)
    return TraceParts(torch.zeros_like(table[0]), table, "outputs")


def _products(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    loss: Loss,
    size: int,
    progress: bool,
    step: float | None,
    vectors: Sequence[Vector],
    into: Tensor | None = None,
) -> Tensor:
    """The part of each parameter in v^T H v of each vector: `Parts`."""
    theta = trainable(model)
    sizes = [parameter.numel() for parameter in theta]
    sums = torch.zeros(len(vectors), len(sizes), dtype=torch.float64, device=inputs.device)
    batches = list(zip(inputs.split(size), targets.split(size), strict=True))
    what = f"{len(vectors)} products with the Hessian"
    with ProgressBar(what, len(batches) * len(vectors), progress) as forecast:
        for batch in batches:
            product = hessian_product(model, [batch], loss, step)
            share = loss.share(len(batch[0]), len(inputs))
            for number, make in enumerate(vectors):
                vector = make()
                result = product(vector)
                if into is not None:
                    into[number].add_(result, alpha=share)
                parts = (vector * result).double().split(sizes)
                sums[number] += share * torch.stack([part.sum() for part in parts])
                forecast.tick()
    return sums
