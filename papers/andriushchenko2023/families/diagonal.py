"""Sharpness of diagonal linear networks f(x) = <x, u * v>: the rescaled Hessian in closed form.

L = |X b - y|^2 / 2, summed over the samples, with b = u * v elementwise and r = X b - y. Its
Hessian with respect to (u, v) is [[V G V, V G U + D], [U G V + D, U G U]], with G = X^T X,
D = diag(X^T r), and the diagonal matrices U and V of u and v. For a small radius rho, adaptive
sharpness with scales c is rho^2 / 2 times the trace (average case) of the Hessian rescaled to
H_ij c_i c_j or, at a minimum, times its largest eigenvalue (worst case). Source:
andriushchenko2023 Sec. 5.2, App. A.2; the loss in its Eq. 6 lacks the factor 1/2 of its Hessian.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings, only_layer
from flatlab.networks.diagonal_linear import Diagonal

SOURCE = "andriushchenko2023 Sec. 5.2"
QUANTITIES = {
    "rescaled_trace": Quantity(
        "trace of H_ij c_i c_j, H the Hessian of |X b - y|^2 / 2", "loss", SOURCE, ("scales",)
    ),
    "rescaled_lambda_max": Quantity("lambda_max of H_ij c_i c_j", "loss", SOURCE, ("scales",)),
    "coefficients_norm_1": Quantity(
        "|b|_1, b = u * v", "coefficient", SOURCE, label=r"$\|u \odot v\|_1$"
    ),
    "coefficients_norm_max": Quantity("|b|_inf, b = u * v", "coefficient", SOURCE),
}

Rescaled = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
SCALES: dict[str, Rescaled] = {
    "none": lambda u, v: (v, u, torch.ones_like(u)),
    "balanced": lambda u, v: (
        v.sign() * (u * v).abs().sqrt(),
        u.sign() * (u * v).abs().sqrt(),
        torch.ones_like(u),
    ),
    "printed": lambda u, v: (
        v * (v / u).abs().sqrt(),
        u * (u / v).abs().sqrt(),
        torch.ones_like(u),
    ),
    "elementwise": lambda u, v: (u.abs() * v, v.abs() * u, (u * v).abs()),
}
"""c_u v, c_v u and c_u c_v for each choice of the scales (c_u, c_v) of u and v.

none: 1.  balanced: sqrt(|u|/|v|) and its inverse, for which Tr = 2 sum G_ii |b_i|.  printed: their
inverses, as in Sec. 5.2, which is not invariant under (a u, v/a).  elementwise: |u|, |v|.
"""


CHECKS = ()


@torch.no_grad()
def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
    """Trace and largest eigenvalue of the rescaled Hessian, for each choice of the scales.

    Without targets the network is assumed to fit them: r = 0.

    >>> import torch, flatlab
    >>> from flatlab.networks import build
    >>> network = build({"name": "diagonal-linear", "options": {}}, (2,), 1).double()
    >>> report = flatlab.measure(network, torch.eye(2).double(), families="diagonal")
    >>> half = report["rescaled_trace"].sel(scales="balanced").item() / 2  # sum of |b| where G = 1
    >>> abs(half - report["coefficients_norm_1"].item()) < 1e-12
    True
    """
    layer = only_layer(model)
    if not isinstance(layer, Diagonal) or len(layer.u) != 1:
        raise MeasureError(
            "diagonal is for diagonal linear networks with one output; leave it out, "
            "or measure `hessian`"
        )
    u, v = (parameter[0].double() for parameter in (layer.u, layer.v))
    x = samples.inputs.flatten(1).double()
    residual = torch.zeros(len(x)).to(x)
    if samples.targets is not None:
        residual = x @ (u * v) - samples.targets[:, 0].double()
    gram, slope = x.T @ x, x.T @ residual
    hessians = [_hessian(gram, slope, *scaled(u, v)) for scaled in SCALES.values()]
    values = {
        "rescaled_trace": torch.stack([h.trace() for h in hessians]),
        "rescaled_lambda_max": torch.stack([_largest_eigenvalue(h) for h in hessians]),
        "coefficients_norm_1": (u * v).abs().sum(),
        "coefficients_norm_max": (u * v).abs().max(),
    }
    return Measured(values, {"scales": list(SCALES)})


def _hessian(gram: Tensor, slope: Tensor, of_u: Tensor, of_v: Tensor, mixed: Tensor) -> Tensor:
    """H_ij c_i c_j with respect to (u, v).  gram: G.  slope: X^T r.  The rest: as in `SCALES`."""
    factors = torch.cat([of_u, of_v])
    hessian = gram.tile(2, 2) * torch.outer(factors, factors)
    beside = torch.diag(slope * mixed)
    size = len(slope)
    hessian[:size, size:] += beside
    hessian[size:, :size] += beside
    return hessian


def _largest_eigenvalue(hessian: Tensor) -> Tensor:
    """NaN if the matrix is not finite, which it is where a u or v is 0 and its scale infinite."""
    if not hessian.isfinite().all():
        return torch.full_like(hessian[0, 0], torch.nan)
    return torch.linalg.eigvalsh(hessian)[-1]
