"""Bounds of ||A^l||_F by the gradient of the outputs in the first layer: chen2026 App. A.

If W_1 alone reads x, A^l = B W_1; and if every path passes x^l, df/dz^1 = J^l B. Hence

    ||A^l||_F <= ||W_1||_2 ||B||_F <= ||W_1||_2 ||J^l B||_F / sigma_min(J^l),

and ||J^l B||_F = ||df/dW_1||_F / ||x|| where weights are not shared. (In the paper's Eq. 23 the
last step is "=".) With P the projection onto the row space of the last layer's W_L,
P B = W_L^+ W_L B, so that ||P A^L||_F <= ||W_1||_2 ||df/dW_1||_F / (sigma+ ||x||).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.derivatives.jacobians.feature_maps import FeatureMaps, jacobians_of_outputs
from flatlab.derivatives.jacobians.norms import Norms, known, spectral_norm
from flatlab.derivatives.per_sample.engine import derivatives
from flatlab.derivatives.per_sample.probe import Findings
from flatlab.derivatives.per_sample.singular_values import exact_values
from flatlab.derivatives.per_sample.values import Derivatives

SAME = {torch.float64: 1e-9, torch.float32: 1e-3}
"""Two derivatives are the same if they differ by at most this share of the norms multiplied."""
BYTES = 2**26
"""Of derivatives of the outputs held at a time."""


@dataclass(frozen=True)
class Readout:
    """How the outputs read the inputs of layers, found on two samples.

    unchanged: layers whose input is x itself.
    cuts: whether J^l A^l = J, of each layer.
    head: the last layer, where the outputs are what it returns.
    """

    unchanged: set[str]
    cuts: list[bool]
    head: nn.Linear | None


def readout_of(maps: FeatureMaps, inputs: Tensor) -> Readout:
    """Of the first two samples, along a random direction v: J^l A^l v = J v where x^l is a cut."""
    x = inputs[:2]
    by_layer, unchanged = jacobians_of_outputs(maps.model, x, maps.modules)
    generator = torch.Generator().manual_seed(0)  # the same direction on every device
    direction = torch.randn(x.shape, generator=generator, dtype=x.dtype).to(x.device)
    *moved, change = (each[0] for each in maps.along(x, direction[None]))
    cuts = []
    for readout, step in zip(by_layer.values(), moved, strict=True):
        found = (readout @ step[:, :, None])[:, :, 0]
        scale = readout.flatten(1).norm(dim=1) * step.norm(dim=1) + change.norm(dim=1)
        cuts.append(bool(((found - change).norm(dim=1) <= SAME[x.dtype] * scale).all()))
    return Readout(unchanged, cuts, head_of(maps, by_layer))


def head_of(maps: FeatureMaps, readout: dict[str, Tensor]) -> nn.Linear | None:
    """The last layer, where the outputs are what it returns.  readout: J^l of some samples."""
    name, module = list(maps.modules.items())[-1]
    if not isinstance(module, nn.Linear) or readout[name].shape[1:] != module.weight.shape:
        return None
    weight = module.weight.detach()
    apart = (readout[name] - weight).abs().amax()
    return module if bool(apart <= SAME[weight.dtype] * weight.abs().max()) else None


def smallest_values(
    maps: FeatureMaps, inputs: Tensor, findings: Findings, size: int | None
) -> Tensor:
    """sigma_min(J^l), zero where J^l has not full column rank: (samples, layers), float64.

    Only layers with at most as many inputs as there are outputs are differentiated.
    """
    widths = dict(zip(maps.modules, (each.shape[1] for each in maps(inputs[:1])[:-1]), strict=True))
    narrow = {n: m for n, m in maps.modules.items() if widths[n] <= findings.outputs}
    values = inputs.new_zeros(len(inputs), len(widths), dtype=torch.float64)
    if not narrow:
        return values
    numbers = findings.outputs * findings.numbers * inputs.element_size()
    size = size or max(1, BYTES // numbers)
    for start in range(0, len(inputs), size):
        here = slice(start, start + size)
        by_layer, _ = jacobians_of_outputs(maps.model, inputs[here], narrow)
        for place, name in enumerate(maps.modules):
            if name in narrow:
                singular = exact_values(by_layer[name])[:, : widths[name]]
                rounding = 10 * torch.finfo(inputs.dtype).eps * singular[:, 0]
                last = singular[:, -1]
                values[here, place] = last.masked_fill(last <= rounding, 0.0)
    return values


def bounds_of(
    maps: FeatureMaps,
    inputs: Tensor,
    findings: Findings,
    readout: Readout,
    squares: Tensor,
    errors: Tensor,
    norms: Norms,
    size: int | None,
) -> dict[str, Any]:
    """The bounds of all layers and of the head, and what they are bounds of.

    squares: ||A^l||_F^2, (samples, layers).  errors: theirs.
    norms: known already.  size: samples at a time; None: as many as fit.
    """
    exact = derivatives(maps.model, inputs, adaptive=False, batch_size=size)
    first = exact.layers[0]
    if first.name != findings.layers[0]:
        raise MeasureError(
            f"bounds: the gradients of {findings.layers[0]!r} are not those of plain autograd"
        )
    smallest = smallest_values(maps, inputs, findings, size)
    norm = known(norms, first.name, lambda: spectral_norm(first.weight))
    slope = (first.weight2.double() / first.x2.double()).sqrt()
    slope = slope.masked_fill(first.x2 == 0, torch.inf)
    # ||df/dW|| / ||x|| = ||Gamma|| where weights are not shared, which is finite at x = 0.
    slope = norm * (slope if first.shared else first.gamma2.double().sqrt())
    tolerance = 1 + (1e-6 if inputs.dtype == torch.float64 else 1e-4)
    cut = torch.tensor(readout.cuts, device=squares.device)
    bound = (slope[:, None] / smallest).masked_fill(smallest == 0, torch.inf)
    rows = bound.sort(0).values  # whose median may be infinite
    surely = (squares - 3 * errors).clamp(min=0).sqrt()
    values = {
        "representation_bound_per_sample": bound,
        "representation_bound": (rows[(len(rows) - 1) // 2] + rows[len(rows) // 2]) / 2,
        "representation_bound_infinite": bound.isinf().double().sum(0),
        "representation_violations": (surely > bound * tolerance).double().sum(0),
    }
    values = {name: value.masked_fill(~cut, torch.nan) for name, value in values.items()}
    if readout.head is None:
        return values
    return values | _of_head(readout.head, exact, squares[:, -1], norm, slope, tolerance)


def _of_head(
    head: nn.Linear,
    exact: Derivatives,
    squares: Tensor,
    norm: float,
    slope: Tensor,
    tolerance: float,
) -> dict[str, Any]:
    """Those of the penultimate features.  squares: ||A^L||_F^2, (samples,)."""
    weight, first = head.weight.detach().double(), exact.layers[0]
    singular = torch.linalg.svdvals(weight)
    rounding = singular[0] * max(weight.shape) * torch.finfo(head.weight.dtype).eps
    not_zero = singular[singular > rounding]
    nothing = weight.shape[1] > len(singular) or len(not_zero) < weight.shape[1]
    smallest = weight.new_zeros(()) if nothing else singular[-1]
    back = inverse(head)
    seen = ((back.T @ back) * exact.gram).sum((1, 2)).clamp(min=0).sqrt()  # ||W_L^+ J||_F
    above = slope / (not_zero[-1] if len(not_zero) else 0.0)
    by_norms = norm * first.x2.double().reciprocal().mean().sqrt() / smallest
    per_sample = (slope / smallest).masked_fill(smallest == 0, torch.inf)
    return {
        "penultimate_bound": per_sample.mean(),
        "penultimate_bound_by_layer": _times(by_norms, first.weight2.double().mean().sqrt()),
        "penultimate_bound_by_sharpness": _times(by_norms, exact.sharpness.double().mean().sqrt()),
        "head_bound": above.mean(),
        "head_bound_per_sample": above,
        "head_frobenius": seen.mean(),
        "head_frobenius_per_sample": seen,
        "head_share": (seen.square() / squares)[squares > 0].mean(),
        "head_share_error": seen.new_zeros(()),
        "head_violations": (seen > above * tolerance).double().sum(),
    }


def inverse(head: nn.Linear) -> Tensor:
    """W_L^+, (M_L, N), in float64: with J it gives P A^L = W_L^+ J."""
    weight = head.weight.detach()
    rounding = max(weight.shape) * torch.finfo(weight.dtype).eps
    return torch.linalg.pinv(weight.double(), rtol=rounding)


def _times(factor: Tensor, root: Tensor) -> Tensor:
    """The product; infinite where the factor is, even if sharpness is zero."""
    return torch.where(factor == torch.inf, torch.inf, factor * root)
